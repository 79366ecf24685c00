package shop;

import java.sql.Connection;
import java.sql.Date;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.ThreadLocalRandom;

/** What was bought. */
final class Orders {
    static final List<String> SHIPPING = List.of("AIR", "UPS", "FEDEX", "SHIP", "COURIER", "MAIL");
    private static final int MOST_DAYS = 7;

    private final Connection db;

    Orders(Connection db) {
        this.db = db;
    }

    /** Sells the lines of a cart to a customer and gives the order's number. */
    int place(Customer customer, List<CartLine> lines, Money money, String shipping, int shipTo, Card card)
            throws SQLException {
        int days = ThreadLocalRandom.current().nextInt(MOST_DAYS + 1);
        int order;
        try (PreparedStatement insert = db.prepareStatement(
                "INSERT INTO orders (o_c_id, o_date, o_sub_total, o_tax, o_total, o_ship_type, o_ship_date,"
                        + " o_bill_addr_id, o_ship_addr_id, o_status)"
                        + " VALUES (?, NOW(), ?, ?, ?, ?, NOW() + INTERVAL ? DAY, ?, ?, 'PENDING')",
                Statement.RETURN_GENERATED_KEYS)) {
            insert.setInt(1, customer.id());
            insert.setBigDecimal(2, money.subTotal());
            insert.setBigDecimal(3, money.tax());
            insert.setBigDecimal(4, money.total());
            insert.setString(5, shipping);
            insert.setInt(6, days);
            insert.setInt(7, customer.address());
            insert.setInt(8, shipTo);
            insert.executeUpdate();
            order = Customers.generated(insert);
        }
        addLines(order, lines, customer);
        pay(order, card, money, shipTo);
        return order;
    }

    /** The latest order of a customer. */
    Optional<Order> latest(int customer) throws SQLException {
        try (PreparedStatement query = db.prepareStatement(
                "SELECT o_id, o_date, o_sub_total, o_tax, o_total, o_ship_type, o_ship_date, o_status, o_bill_addr_id,"
                        + " o_ship_addr_id, cx_type, cx_num FROM orders LEFT JOIN cc_xacts ON cx_o_id = o_id"
                        + " WHERE o_c_id = ? ORDER BY o_id DESC LIMIT 1")) {
            query.setInt(1, customer);
            ResultSet row = query.executeQuery();
            if (!row.next()) {
                return Optional.empty();
            }
            Money money = new Money(
                    row.getBigDecimal(3),
                    row.getBigDecimal(4),
                    row.getBigDecimal(5).subtract(row.getBigDecimal(3)).subtract(row.getBigDecimal(4)),
                    row.getBigDecimal(5));
            return Optional.of(new Order(
                    row.getInt(1),
                    row.getTimestamp(2).toLocalDateTime(),
                    money,
                    row.getString(6),
                    row.getTimestamp(7).toLocalDateTime(),
                    row.getString(8),
                    row.getInt(9),
                    row.getInt(10),
                    row.getString(11),
                    row.getString(12),
                    lines(row.getInt(1))));
        }
    }

    private void addLines(int order, List<CartLine> lines, Customer customer) throws SQLException {
        try (PreparedStatement insert = db.prepareStatement(
                        "INSERT INTO order_line (ol_o_id, ol_id, ol_i_id, ol_qty, ol_discount, ol_comments)"
                                + " VALUES (?, ?, ?, ?, ?, '')");
                PreparedStatement stock = db.prepareStatement("UPDATE item SET i_stock = ? WHERE i_id = ?")) {
            int number = 0;
            for (CartLine line : lines) {
                number++;
                insert.setInt(1, order);
                insert.setInt(2, number);
                insert.setInt(3, line.item());
                insert.setInt(4, line.quantity());
                insert.setBigDecimal(5, customer.discount());
                insert.executeUpdate();
                stock.setInt(1, Stock.after(line.stock(), line.quantity()));
                stock.setInt(2, line.item());
                stock.executeUpdate();
            }
        }
    }

    private void pay(int order, Card card, Money money, int shipTo) throws SQLException {
        try (PreparedStatement insert = db.prepareStatement(
                "INSERT INTO cc_xacts (cx_o_id, cx_type, cx_num, cx_name, cx_expire, cx_auth_id, cx_xact_amt,"
                        + " cx_xact_date, cx_co_id) SELECT ?, ?, ?, ?, ?, ?, ?, NOW(), addr_co_id FROM address"
                        + " WHERE addr_id = ?")) {
            insert.setInt(1, order);
            insert.setString(2, card.type());
            insert.setString(3, card.number());
            insert.setString(4, card.name());
            insert.setDate(5, Date.valueOf(card.expiry()));
            insert.setString(6, Tokens.fresh().substring(0, 15));
            insert.setBigDecimal(7, money.total());
            insert.setInt(8, shipTo);
            insert.executeUpdate();
        }
    }

    private List<Order.Line> lines(int order) throws SQLException {
        try (PreparedStatement query = db.prepareStatement(
                "SELECT ol_i_id, i_title, ol_qty, ol_discount, ol_comments FROM order_line JOIN item ON i_id = ol_i_id"
                        + " WHERE ol_o_id = ? ORDER BY ol_id")) {
            query.setInt(1, order);
            ResultSet row = query.executeQuery();
            List<Order.Line> found = new ArrayList<>();
            while (row.next()) {
                found.add(new Order.Line(
                        row.getInt(1), row.getString(2), row.getInt(3), row.getBigDecimal(4), row.getString(5)));
            }
            return found;
        }
    }
}
