// The statements of tools by pgjdbc, with the cursors that each tool asks the driver for.
// Arguments: host, port, user, password, database, then files of recorded statements.
import java.nio.file.*;
import java.sql.*;
import java.util.*;
import java.util.regex.*;

public class Replay {
    static final Pattern STATEMENT = Pattern.compile(
            "(?ms)^-- => (\\w+)\\n(?:-- values: (.*?)\\n)?(.*?)(?=^-- => |\\z)");
    static final Pattern VALUE = Pattern.compile("\"((?:[^\"\\\\]|\\\\.)*)\"");

    /** Fetch size and transactions of a tool: Metabase reads by cursors of 500 rows, DBeaver's metadata by 1000. */
    static int fetchSize(String tool) {
        return tool.equals("metabase") ? 500 : tool.equals("dbeaver") ? 1000 : tool.equals("tableau") ? 2048 : 0;
    }

    public static void main(String[] given) throws Exception {
        Properties named = new Properties();
        named.setProperty("user", given[2]);
        named.setProperty("password", given[3]);
        named.setProperty("options", "-c sfumato.epsilon=1");
        String address = "jdbc:postgresql://" + given[0] + ":" + given[1] + "/" + given[4];
        boolean first = true;
        for (String file : Arrays.copyOfRange(given, 5, given.length)) {
            Path path = Path.of(file);
            String tool = path.getFileName().toString().replace(".sql", "");
            try (Connection connection = DriverManager.getConnection(address, named)) {
                if (first) System.out.println("pgjdbc " + connection.getMetaData().getDriverVersion());
                first = false;
                if (tool.equals("metabase")) {
                    connection.setReadOnly(true);
                    connection.setTransactionIsolation(Connection.TRANSACTION_READ_UNCOMMITTED);
                    connection.setHoldability(ResultSet.CLOSE_CURSORS_AT_COMMIT);
                }
                replay(connection, tool, Files.readString(path));
            }
        }
    }

    static void replay(Connection connection, String tool, String text) throws SQLException {
        int done = 0, rows = 0;
        Matcher found = STATEMENT.matcher(text);
        while (found.find()) {
            String verdict = found.group(1), sql = found.group(3).strip();
            boolean isQuestion = sql.matches("(?is)(select|with)\\b.*");
            if (tool.equals("metabase") && isQuestion) connection.setAutoCommit(false); // cursors need a transaction
            String state = "";
            try {
                rows += ask(connection, sql, found.group(2), fetchSize(tool));
                if (!connection.getAutoCommit()) connection.commit();
            } catch (SQLException error) {
                state = error.getSQLState();
                if (!connection.getAutoCommit()) connection.rollback();
            }
            connection.setAutoCommit(true);
            if (!state.equals(verdict.matches("free|charged") ? "" : verdict)) {
                System.out.println(tool + ": FAILED " + state + " instead of " + verdict + " by " + sql);
                System.exit(1);
            }
            done++;
        }
        System.out.println(tool + ": " + done + " statements, " + rows + " rows");
    }

    static int ask(Connection connection, String sql, String values, int fetchSize) throws SQLException {
        int rows = 0;
        try (PreparedStatement asked = connection.prepareStatement(
                values == null ? sql.replace("?", "??") : sql.replaceAll("\\$\\d+", "?"))) {
            asked.setFetchSize(fetchSize);
            Matcher value = VALUE.matcher(values == null ? "" : values);
            for (int at = 1; value.find(); at++) {
                String given = value.group(1).replace("\\\\", "\\");
                if (given.matches("\\d+")) asked.setLong(at, Long.parseLong(given));
                else asked.setString(at, given);
            }
            for (boolean more = asked.execute(); more || asked.getUpdateCount() != -1; more = asked.getMoreResults()) {
                if (!more) continue;
                try (ResultSet result = asked.getResultSet()) {
                    int width = result.getMetaData().getColumnCount();
                    while (result.next()) {
                        for (int at = 1; at <= width; at++) result.getObject(at);
                        rows++;
                    }
                }
            }
        }
        return rows;
    }
}
