package shop;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;

/** The carts, which stand in the database. */
final class Carts {
    static final int MOST_PIECES = 999;

    private final Connection db;

    Carts(Connection db) {
        this.db = db;
    }

    /** Makes an empty cart and gives its number. */
    int create(String token) throws SQLException {
        try (PreparedStatement insert = db.prepareStatement(
                "INSERT INTO shopping_cart (sc_token, sc_time) VALUES (?, NOW())", Statement.RETURN_GENERATED_KEYS)) {
            insert.setString(1, token);
            insert.executeUpdate();
            return Customers.generated(insert);
        }
    }

    /** Whether there is this cart; until the transaction ends nobody else can change it. */
    boolean hold(int cart, String token) throws SQLException {
        try (PreparedStatement query = db.prepareStatement(
                "SELECT 1 FROM shopping_cart WHERE sc_id = ? AND sc_token = ? FOR UPDATE")) {
            query.setInt(1, cart);
            query.setString(2, token);
            return query.executeQuery().next();
        }
    }

    /** Puts one more piece of a book into a cart. */
    void add(int cart, int item) throws SQLException {
        try (PreparedStatement insert = db.prepareStatement(
                "INSERT INTO shopping_cart_line (scl_sc_id, scl_i_id, scl_qty) SELECT ?, i_id, 1 FROM item WHERE i_id = ?"
                        + " ON DUPLICATE KEY UPDATE scl_qty = LEAST(scl_qty + 1, ?)")) {
            insert.setInt(1, cart);
            insert.setInt(2, item);
            insert.setInt(3, MOST_PIECES);
            if (insert.executeUpdate() == 0 && lines(cart).stream().noneMatch(line -> line.item() == item)) {
                throw Refused.notFound("there is no book " + item);
            }
        }
    }

    /** Sets how many pieces of some books a cart holds; 0 takes a book out. Books that it does not hold are left out. */
    void refresh(int cart, List<Integer> items, List<Integer> quantities) throws SQLException {
        try (PreparedStatement update = db.prepareStatement(
                        "UPDATE shopping_cart_line SET scl_qty = ? WHERE scl_sc_id = ? AND scl_i_id = ?");
                PreparedStatement sweep = db.prepareStatement(
                        "DELETE FROM shopping_cart_line WHERE scl_sc_id = ? AND scl_qty = 0")) {
            for (int i = 0; i < items.size(); i++) {
                update.setInt(1, quantities.get(i));
                update.setInt(2, cart);
                update.setInt(3, items.get(i));
                update.executeUpdate();
            }
            sweep.setInt(1, cart);
            sweep.executeUpdate();
        }
    }

    /** What a cart holds. */
    List<CartLine> lines(int cart) throws SQLException {
        return lines(cart, "");
    }

    /** What a cart holds; until the transaction ends nobody else can sell these books. */
    List<CartLine> linesToSell(int cart) throws SQLException {
        return lines(cart, " FOR UPDATE");
    }

    /** Says who is to pay for a cart. */
    void own(int cart, int customer) throws SQLException {
        try (PreparedStatement update =
                db.prepareStatement("UPDATE shopping_cart SET sc_c_id = ? WHERE sc_id = ?")) {
            update.setInt(1, customer);
            update.setInt(2, cart);
            update.executeUpdate();
        }
    }

    /** Removes a cart and what it holds. */
    void remove(int cart) throws SQLException {
        try (PreparedStatement delete = db.prepareStatement("DELETE FROM shopping_cart WHERE sc_id = ?")) {
            delete.setInt(1, cart);
            delete.executeUpdate();
        }
    }

    private List<CartLine> lines(int cart, String lock) throws SQLException {
        try (PreparedStatement query = db.prepareStatement(
                "SELECT i_id, i_title, i_cost, i_srp, i_backing, scl_qty, i_stock FROM shopping_cart_line"
                        + " STRAIGHT_JOIN item ON i_id = scl_i_id WHERE scl_sc_id = ? ORDER BY scl_i_id" + lock)) {
            query.setInt(1, cart);
            ResultSet row = query.executeQuery();
            List<CartLine> found = new ArrayList<>();
            while (row.next()) {
                found.add(new CartLine(
                        row.getInt(1),
                        row.getString(2),
                        row.getBigDecimal(3),
                        row.getBigDecimal(4),
                        row.getString(5),
                        row.getInt(6),
                        row.getInt(7)));
            }
            return found;
        }
    }
}
