// node-pg and postgres.js over the wire protocol. Arguments: host, port, user, password, database.
import { readFileSync } from "node:fs";
import { drizzle } from "drizzle-orm/node-postgres";
import { sql as fragment } from "drizzle-orm";
import knex from "knex";
import pg from "pg";
import postgres from "postgres";
import { QueryTypes, Sequelize } from "sequelize";

const versions = ["pg", "postgres", "knex", "sequelize", "drizzle-orm"].map((name) => {
  const found = JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url)));
  return `${name} ${found.version}`;
});
console.log(`Node ${process.version} with ${versions.join(", ")}`);
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

const builder = knex({ client: "pg", connection: { host, port, user, password, database, options: "-c sfumato.epsilon=1" } });
const grouped = await builder("visits").select("dept").count("* as n").avg("cost as cost").groupBy("dept");
console.log(`knex: (${grouped.length}, ${Object.keys(grouped[0]).length})`);
const picked = await builder("staff").whereIn("id", [1, 2]).andWhere("seen", "<", new Date()).limit(5);
console.log(`knex, parameters: ${picked.length} rows`);
const described = await builder("visits").columnInfo();
console.log(`knex, columnInfo: ${Object.keys(described).length} columns`);
await builder.destroy();

const models = new Sequelize(database, user, password, {
  host, port, dialect: "postgres", logging: false, dialectOptions: { options: "-c sfumato.epsilon=1" },
});
const asked = await models.query(byDept, { type: QueryTypes.SELECT });
console.log(`sequelize: (${asked.length}, ${Object.keys(asked[0]).length})`);
const tables = await models.getQueryInterface().showAllTables();
const columns = await models.getQueryInterface().describeTable("visits");
console.log(`sequelize, tables and columns: ${tables.length} and ${Object.keys(columns).length}`);
await models.close();

const pool = new pg.Pool({ host, port, user, password, database, options: "-c sfumato.epsilon=1" });
const drizzled = await drizzle(pool).execute(fragment`SELECT id FROM staff WHERE id IN (${1},${2})`);
console.log(`drizzle: ${drizzled.rows.length} rows`);
await pool.end();
