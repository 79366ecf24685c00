package shop;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * What sells best of each subject in the latest orders.
 *
 * The specification lets this list be up to 30 seconds old. It is asked of the database each time unless the shop is
 * told how long it may be kept.
 */
final class BestSellers {
    static final int MOST_AGE_S = 30;
    private static final int LATEST_ORDERS = 3333;

    private record Kept(long atNanos, List<Listed> books) {}

    private final long ageNanos;
    private final Map<String, Kept> kept = new ConcurrentHashMap<>();

    /** Keeps a list for some seconds, 0 to 30. */
    BestSellers(int ageS) {
        if (ageS < 0 || ageS > MOST_AGE_S) {
            throw new IllegalArgumentException("best sellers are kept for " + ageS + " s; 0 to 30 are allowed");
        }
        ageNanos = ageS * 1_000_000_000L;
    }

    /** Fifty books of a subject, those sold most first. */
    List<Listed> of(Connection db, String subject) throws SQLException {
        long now = System.nanoTime();
        Kept before = kept.get(subject);
        if (before != null && now - before.atNanos < ageNanos) {
            return before.books;
        }
        List<Listed> books = query(db, subject);
        if (ageNanos > 0) {
            kept.put(subject, new Kept(now, books));
        }
        return books;
    }

    /** From the latest orders on: from the authors on, which the optimizer may choose, takes five times as long. */
    private static List<Listed> query(Connection db, String subject) throws SQLException {
        try (PreparedStatement query = db.prepareStatement(
                "SELECT i_id, i_title, a_fname, a_lname, i_thumbnail FROM order_line STRAIGHT_JOIN item ON i_id = ol_i_id"
                        + " JOIN author ON a_id = i_a_id WHERE ol_o_id > (SELECT CAST(MAX(o_id) AS SIGNED) - ? FROM orders)"
                        + " AND i_subject = ? GROUP BY i_id ORDER BY SUM(ol_qty) DESC, i_id LIMIT ?")) {
            query.setInt(1, LATEST_ORDERS);
            query.setString(2, subject);
            query.setInt(3, Items.ROWS);
            return Items.listed(query);
        }
    }
}
