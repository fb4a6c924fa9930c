import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;

/** What tools on Java ask of a database, one line for each; test_clients.py reads them. */
public class Meta {
    public static void main(String[] arguments) throws Exception {
        String url = "jdbc:postgresql://127.0.0.1:" + arguments[0] + "/clinic?options=-c%20sfumato.epsilon=1";
        try (Connection connection = DriverManager.getConnection(url, "research", arguments[1])) {
            DatabaseMetaData meta = connection.getMetaData();
            show("tables", meta.getTables(null, "public", "%", new String[] {"TABLE"}), "TABLE_NAME");
            show("all", meta.getTables(null, "public", "%", null), "TABLE_NAME");
            show("columns", meta.getColumns(null, "public", "visits", "%"), "COLUMN_NAME", "TYPE_NAME");
            show("schemas", meta.getSchemas(), "TABLE_SCHEM");
            show("catalogs", meta.getCatalogs(), "TABLE_CAT");
            show("keys", meta.getPrimaryKeys(null, "public", "visits"), "COLUMN_NAME");
            show("imported", meta.getImportedKeys(null, "public", "visits"), "PKTABLE_NAME");
            show("exported", meta.getExportedKeys(null, "public", "visits"), "PKTABLE_NAME");
            show("indexes", meta.getIndexInfo(null, "public", "visits", false, false), "INDEX_NAME");
            show("privileges", meta.getTablePrivileges(null, "public", "visits"), "PRIVILEGE");
            show("procedures", meta.getProcedures(null, "public", "%"), "PROCEDURE_NAME");
            show("functions", meta.getFunctions(null, "public", "%"), "FUNCTION_NAME");
            show("rows", meta.getBestRowIdentifier(null, "public", "visits", 0, true), "COLUMN_NAME");
            count("types", meta.getTypeInfo());
            count("versions", meta.getVersionColumns(null, "public", "visits"));
            System.out.println("user " + meta.getUserName() + " " + meta.getMaxColumnNameLength());
            System.out.println("keywords " + meta.getSQLKeywords().contains("limit"));
            ask(connection);
        }
    }

    static void ask(Connection connection) throws Exception {
        String sql = "SELECT dept, COUNT(*) AS n, AVG(cost) AS c FROM visits WHERE age > ? AND dept = ? GROUP BY dept";
        try (PreparedStatement asked = connection.prepareStatement(sql)) {
            asked.setInt(1, 30);
            asked.setString(2, "er");
            String first = "";
            for (int i = 0; i < 7; i++) { // from the fifth time on, by a named statement, in binary
                ResultSet rows = asked.executeQuery();
                rows.next();
                String now = rows.getString(1) + " " + rows.getLong(2) + " " + rows.getDouble(3);
                first = i == 0 ? now : first;
                System.out.println("again " + now.equals(first));
            }
            ResultSetMetaData meta = asked.getMetaData();
            System.out.println("types " + meta.getColumnTypeName(1) + " " + meta.getColumnTypeName(2) + " "
                + meta.getColumnTypeName(3));
        }
        try (PreparedStatement asked = connection.prepareStatement("SELECT name FROM staff WHERE since = ?")) {
            asked.setDate(1, Date.valueOf("2020-02-04"));
            show("dated", asked.executeQuery(), "name");
        }
        connection.setAutoCommit(false);
        try (Statement parts = connection.createStatement()) {
            parts.setFetchSize(2);
            count("fetched", parts.executeQuery("SELECT id FROM staff"));
        }
        connection.commit();
        connection.setAutoCommit(true);
        try (Statement refused = connection.createStatement()) {
            refused.executeQuery("SELECT age FROM visits");
        } catch (SQLException error) {
            System.out.println("refused " + error.getSQLState());
        }
        connection.setReadOnly(true);
        connection.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
        System.out.println("valid " + connection.isValid(3) + " " + connection.getSchema());
    }

    static void show(String name, ResultSet rows, String... columns) throws Exception {
        StringBuilder line = new StringBuilder(name);
        while (rows.next()) {
            for (String column : columns) {
                line.append(' ').append(rows.getString(column));
            }
        }
        System.out.println(line);
    }

    static void count(String name, ResultSet rows) throws Exception {
        int found = 0;
        while (rows.next()) {
            found++;
        }
        System.out.println(name + " " + found);
    }
}
