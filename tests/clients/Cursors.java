// pgjdbc with metadata, cursors and parameters. Arguments: host, port, user, password, database.
import java.sql.*;
import java.time.OffsetDateTime;
import java.util.Properties;

public class Cursors {
    public static void main(String[] given) throws Exception {
        Properties named = new Properties();
        named.setProperty("user", given[2]);
        named.setProperty("password", given[3]);
        named.setProperty("options", "-c sfumato.epsilon=1");
        String address = "jdbc:postgresql://" + given[0] + ":" + given[1] + "/" + given[4];
        try (Connection connection = DriverManager.getConnection(address, named)) {
            DatabaseMetaData driver = connection.getMetaData();
            System.out.println("Java " + System.getProperty("java.version") + " with pgjdbc " + driver.getDriverVersion());
            int columns = 0, tables = 0;
            try (ResultSet found = connection.getMetaData().getColumns(null, "public", "visits", "%")) {
                while (found.next()) columns++;
            }
            try (ResultSet found = connection.getMetaData().getTables(null, "public", "%", new String[] {"TABLE"})) {
                while (found.next()) tables++;
            }
            System.out.println("pgjdbc, metadata: " + columns + " columns, " + (tables >= 2 ? "tables" : "NO TABLES"));
            connection.setAutoCommit(false);
            try (Statement asked = connection.createStatement()) {
                asked.setFetchSize(2);
                int rows = 0;
                try (ResultSet found = asked.executeQuery(
                        "SELECT dept, COUNT(*) AS n, AVG(cost) AS cost FROM visits GROUP BY dept ORDER BY dept")) {
                    while (found.next()) rows++;
                }
                System.out.println("pgjdbc, cursor: " + rows + " rows");
            }
            connection.commit();
            try (PreparedStatement asked = connection.prepareStatement(
                    "SELECT id FROM staff WHERE id IN (?,?) AND seen < ?")) {
                asked.setLong(1, 1);
                asked.setLong(2, 2);
                asked.setObject(3, OffsetDateTime.parse("2030-01-01T00:00:00Z"));
                int rows = 0;
                try (ResultSet found = asked.executeQuery()) {
                    while (found.next()) rows++;
                }
                System.out.println("pgjdbc, parameters: " + rows + " rows");
            }
            connection.commit();
            try (PreparedStatement asked = connection.prepareStatement("SELECT name FROM staff WHERE id = ANY(?)")) {
                asked.setArray(1, connection.createArrayOf("bigint", new Long[] {1L, 2L, 3L}));
                int rows = 0;
                try (ResultSet found = asked.executeQuery()) {
                    while (found.next()) rows++;
                }
                System.out.println("pgjdbc, an array: " + rows + " rows");
            }
            connection.commit();
        }
    }
}
