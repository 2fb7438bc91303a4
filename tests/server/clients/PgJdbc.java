import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.SQLWarning;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;

/** Asks a server as programs with pgJDBC do, and prints a line for each thing that it finds. */
public class PgJdbc {
    public static void main(String[] args) throws SQLException {
        Properties settings = new Properties();
        settings.setProperty("user", args[1]);
        settings.setProperty("password", args[2]);
        settings.setProperty("sslmode", "verify-full");
        settings.setProperty("sslrootcert", args[3]);
        try (Connection con = DriverManager.getConnection(args[0], settings)) {
            structure(con.getMetaData());
            questions(con);
            cursors(con);
            refusals(con);
        }
        settings.setProperty("password", "wrong");
        try (Connection con = DriverManager.getConnection(args[0], settings)) {
            System.out.println("let in with a wrong password");
        } catch (SQLException error) {
            System.out.println("login " + error.getSQLState());
        }
    }

    private static void structure(DatabaseMetaData found) throws SQLException {
        System.out.println("product " + found.getDatabaseProductName());
        System.out.println("schemas " + column(found.getSchemas(), "TABLE_SCHEM"));
        String[] kinds = {"TABLE"};
        System.out.println("tables " + column(found.getTables(null, "public", "%", kinds), "TABLE_NAME"));
        System.out.println("columns " + column(found.getColumns(null, "public", "visits", "%"), "COLUMN_NAME"));
        System.out.println("types " + column(found.getColumns(null, "public", "visits", "%"), "TYPE_NAME"));
        System.out.println("keys " + column(found.getPrimaryKeys(null, "public", "visits"), "COLUMN_NAME"));
        System.out.println("links " + column(found.getImportedKeys(null, "public", "visits"), "FKCOLUMN_NAME"));
        System.out.println("indexes " + column(found.getIndexInfo(null, "public", "visits", false, true), "INDEX_NAME"));
        System.out.println("known types " + column(found.getTypeInfo(), "TYPE_NAME").contains("int8"));
        System.out.println("functions " + (found.getSQLKeywords().length() > 0));
    }

    private static void questions(Connection con) throws SQLException {
        try (Statement asked = con.createStatement();
                ResultSet rows = asked.executeQuery("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward")) {
            ResultSetMetaData columns = rows.getMetaData();
            System.out.println("answer " + columns.getColumnTypeName(1) + " " + columns.getColumnTypeName(2));
            while (rows.next()) {
                System.out.println("row " + rows.getString(1) + " " + rows.getLong("n"));
            }
            SQLWarning told = asked.getWarnings();
            System.out.println("price " + (told != null && told.getMessage().contains("epsilon")));
        }
        String text = "SELECT COUNT(*) FROM visits WHERE ward = ? AND cost > ?";
        try (PreparedStatement asked = con.prepareStatement(text)) {
            System.out.println("parameters " + asked.getParameterMetaData().getParameterCount());
            for (int turn = 0; turn < 7; turn++) { // past its threshold for statements with a name
                asked.setString(1, turn % 2 == 0 ? "a" : "b");
                asked.setDouble(2, 5.0);
                try (ResultSet rows = asked.executeQuery()) {
                    rows.next();
                    System.out.println("prepared " + turn % 2 + " " + rows.getLong(1));
                }
            }
        }
    }

    private static void cursors(Connection con) throws SQLException {
        con.setAutoCommit(false);
        try (Statement asked = con.createStatement()) {
            asked.setFetchSize(2);
            try (ResultSet rows = asked.executeQuery("SELECT range FROM range(5)")) {
                System.out.println("fetched " + column(rows, "range"));
            }
        }
        con.commit();
        con.setAutoCommit(true);
    }

    private static void refusals(Connection con) throws SQLException {
        for (String text : new String[] {"SELECT * FROM visits", "SELECT 1 / / 2", "DELETE FROM visits"}) {
            try (Statement asked = con.createStatement()) {
                asked.execute(text);
                System.out.println("not refused: " + text);
            } catch (SQLException error) {
                System.out.println("refused " + error.getSQLState());
            }
        }
    }

    private static List<String> column(ResultSet rows, String name) throws SQLException {
        List<String> found = new ArrayList<>();
        try (rows) {
            while (rows.next()) {
                found.add(rows.getString(name));
            }
        }
        return found;
    }
}
