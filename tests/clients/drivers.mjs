// node-pg and postgres.js over the wire protocol. Arguments: host, port, user, password, database.
import pg from "pg";
import postgres from "postgres";

const [host, port, user, password, database] = process.argv.slice(2);
const byDept = "SELECT dept, COUNT(*) AS n, AVG(cost) AS cost FROM visits GROUP BY dept ORDER BY dept";
const among = "SELECT id FROM staff WHERE id IN ($1,$2) AND seen < $3";

const client = new pg.Client({ host, port, user, password, database, options: "-c sfumato.epsilon=1" });
await client.connect();
const counted = await client.query(byDept);
console.log(`node-pg: (${counted.rows.length}, ${counted.fields.length})`);
const found = await client.query(among, [1, 2, new Date("2030-01-01T00:00:00Z")]);
console.log(`node-pg, parameters: ${found.rows.length} rows`);
await client.end();

const sql = postgres({ host, port, user, password, database, connection: { options: "-c sfumato.epsilon=1" } });
const rows = await sql.unsafe(byDept);
console.log(`postgres.js: (${rows.length}, ${rows.columns.length})`);
const listed = await sql`SELECT id FROM staff WHERE id IN ${sql([1, 2])}`;
console.log(`postgres.js, parameters: ${listed.length} rows`);
let seen = 0;
await sql`SELECT id FROM staff ORDER BY id`.cursor(2, (part) => { seen += part.length; });
console.log(`postgres.js, cursor: ${seen} rows`);
await sql.end();
