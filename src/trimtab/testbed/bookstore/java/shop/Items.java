package shop;

import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;

/** The catalogue. */
final class Items {
    static final int ROWS = 50;
    private static final String LISTED =
            "SELECT i_id, i_title, a_fname, a_lname, i_thumbnail FROM item JOIN author ON a_id = i_a_id ";
    private static volatile int number;

    private final Connection db;

    Items(Connection db) {
        this.db = db;
    }

    /** One book. */
    Item get(int id) throws SQLException {
        try (PreparedStatement query = db.prepareStatement(
                "SELECT item.*, a_fname, a_lname FROM item JOIN author ON a_id = i_a_id WHERE i_id = ?")) {
            query.setInt(1, id);
            ResultSet row = query.executeQuery();
            if (!row.next()) {
                throw Refused.notFound("there is no book " + id);
            }
            return new Item(
                    id,
                    row.getString("i_title"),
                    row.getString("a_fname") + " " + row.getString("a_lname"),
                    row.getDate("i_pub_date").toLocalDate(),
                    row.getString("i_publisher"),
                    row.getString("i_subject"),
                    row.getString("i_desc"),
                    row.getString("i_image"),
                    row.getString("i_thumbnail"),
                    row.getBigDecimal("i_srp"),
                    row.getBigDecimal("i_cost"),
                    row.getDate("i_avail").toLocalDate(),
                    row.getInt("i_stock"),
                    row.getString("i_isbn"),
                    row.getInt("i_page"),
                    row.getString("i_backing"),
                    row.getString("i_dimensions"));
        }
    }

    /** The newest books of a subject. */
    List<Listed> newest(String subject) throws SQLException {
        return listed(LISTED + "WHERE i_subject = ? ORDER BY i_pub_date DESC, i_title LIMIT " + ROWS, subject);
    }

    /** The books of a subject, by title. */
    List<Listed> ofSubject(String subject) throws SQLException {
        return listed(LISTED + "WHERE i_subject = ? ORDER BY i_title LIMIT " + ROWS, subject);
    }

    /** The books whose title begins with a text. */
    List<Listed> titled(String start) throws SQLException {
        return listed(LISTED + "WHERE i_title LIKE ? ORDER BY i_title LIMIT " + ROWS, beginsWith(start));
    }

    /** The books by authors whose last name begins with a text. */
    List<Listed> by(String start) throws SQLException {
        return listed(LISTED + "WHERE a_lname LIKE ? ORDER BY i_title LIMIT " + ROWS, beginsWith(start));
    }

    /** Any book. */
    int any() throws SQLException {
        int known = number;
        if (known == 0) {
            try (PreparedStatement query = db.prepareStatement("SELECT MAX(i_id) FROM item")) {
                ResultSet row = query.executeQuery();
                row.next();
                known = number = row.getInt(1);
            }
        }
        return ThreadLocalRandom.current().nextInt(known) + 1;
    }

    /** Five books that go with a book. */
    List<Listed> related(int id) throws SQLException {
        int[] ids = relatedIds(id);
        try (PreparedStatement query = db.prepareStatement(LISTED + "WHERE i_id IN (?, ?, ?, ?, ?)")) {
            for (int i = 0; i < ids.length; i++) {
                query.setInt(i + 1, ids[i]);
            }
            return listed(query);
        }
    }

    /** Changes a book's price and pictures, and makes it new. */
    void change(int id, BigDecimal cost, String image, String thumbnail) throws SQLException {
        int[] related = mostBoughtWith(id);
        try (PreparedStatement change = db.prepareStatement(
                "UPDATE item SET i_cost = ?, i_image = ?, i_thumbnail = ?, i_pub_date = CURRENT_DATE, i_related1 = ?,"
                        + " i_related2 = ?, i_related3 = ?, i_related4 = ?, i_related5 = ? WHERE i_id = ?")) {
            change.setBigDecimal(1, cost);
            change.setString(2, image);
            change.setString(3, thumbnail);
            for (int i = 0; i < related.length; i++) {
                change.setInt(4 + i, related[i]);
            }
            change.setInt(9, id);
            change.executeUpdate();
        }
    }

    /** The five books most bought by those who bought this one lately; where there are fewer, those of before. */
    private int[] mostBoughtWith(int id) throws SQLException {
        int[] found = relatedIds(id);
        try (PreparedStatement query = db.prepareStatement(
                "SELECT ol_i_id FROM orders JOIN order_line ON ol_o_id = o_id WHERE ol_i_id <> ?"
                        + " AND o_id > (SELECT CAST(MAX(o_id) AS SIGNED) - 10000 FROM orders) AND o_c_id IN (SELECT o_c_id FROM orders"
                        + " JOIN order_line ON ol_o_id = o_id WHERE ol_i_id = ? AND o_id >"
                        + " (SELECT CAST(MAX(o_id) AS SIGNED) - 10000 FROM orders))"
                        + " GROUP BY ol_i_id ORDER BY SUM(ol_qty) DESC, ol_i_id LIMIT 5")) {
            query.setInt(1, id);
            query.setInt(2, id);
            ResultSet row = query.executeQuery();
            for (int i = 0; row.next(); i++) {
                found[i] = row.getInt(1);
            }
        }
        return found;
    }

    private int[] relatedIds(int id) throws SQLException {
        try (PreparedStatement query = db.prepareStatement(
                "SELECT i_related1, i_related2, i_related3, i_related4, i_related5 FROM item WHERE i_id = ?")) {
            query.setInt(1, id);
            ResultSet row = query.executeQuery();
            if (!row.next()) {
                throw Refused.notFound("there is no book " + id);
            }
            int[] ids = new int[5];
            for (int i = 0; i < ids.length; i++) {
                ids[i] = row.getInt(i + 1);
            }
            return ids;
        }
    }

    private List<Listed> listed(String sql, String value) throws SQLException {
        try (PreparedStatement query = db.prepareStatement(sql)) {
            query.setString(1, value);
            return listed(query);
        }
    }

    /** The rows of a query of the columns of {@link #LISTED}. */
    static List<Listed> listed(PreparedStatement query) throws SQLException {
        List<Listed> found = new ArrayList<>(ROWS);
        ResultSet row = query.executeQuery();
        while (row.next()) {
            String author = row.getString(3) + " " + row.getString(4);
            found.add(new Listed(row.getInt(1), row.getString(2), author, row.getString(5)));
        }
        return found;
    }

    /** The pattern of LIKE for texts with this beginning. */
    private static String beginsWith(String start) {
        return start.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%";
    }
}
