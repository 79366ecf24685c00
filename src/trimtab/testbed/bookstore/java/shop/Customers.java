package shop;

import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.sql.Connection;
import java.sql.Date;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Locale;
import java.util.Optional;
import java.util.concurrent.ThreadLocalRandom;

/** Customers and addresses. Passwords are the specification's, derived from user names: they protect nothing. */
final class Customers {
    private static final int MOST_DISCOUNT_PERCENT = 50;
    private static final String COLUMNS = "SELECT c_id, c_uname, c_fname, c_lname, c_addr_id, c_discount FROM customer ";

    private final Connection db;

    Customers(Connection db) {
        this.db = db;
    }

    /** The customer of a number. */
    Optional<Customer> find(int id) throws SQLException {
        try (PreparedStatement query = db.prepareStatement(COLUMNS + "WHERE c_id = ?")) {
            query.setInt(1, id);
            return one(query.executeQuery());
        }
    }

    /** The customer of a cart that was taken to the till. */
    Optional<Customer> ofCart(int cart) throws SQLException {
        try (PreparedStatement query =
                db.prepareStatement(COLUMNS + "JOIN shopping_cart ON sc_c_id = c_id WHERE sc_id = ?")) {
            query.setInt(1, cart);
            return one(query.executeQuery());
        }
    }

    /** The customer of a form's user name and password. */
    Customer login(Form form) throws SQLException {
        String user = form.text("username", 1, 20);
        byte[] password = form.text("password", 1, 20).getBytes(StandardCharsets.UTF_8);
        try (PreparedStatement query = db.prepareStatement("SELECT c_id, c_passwd FROM customer WHERE c_uname = ?")) {
            query.setString(1, user);
            ResultSet row = query.executeQuery();
            if (row.next() && MessageDigest.isEqual(password, row.getString(2).getBytes(StandardCharsets.UTF_8))) {
                return find(row.getInt(1)).orElseThrow();
            }
        }
        throw Refused.forbidden("no customer has this user name and password");
    }

    /** Notes a visit of a customer who came before. */
    void visited(int id) throws SQLException {
        try (PreparedStatement update = db.prepareStatement("UPDATE customer SET c_last_login = c_login, c_login = NOW(),"
                + " c_expiration = NOW() + INTERVAL 2 HOUR WHERE c_id = ?")) {
            update.setInt(1, id);
            update.executeUpdate();
        }
    }

    /** Makes the customer that a form describes. */
    Customer register(Form form) throws SQLException {
        String first = form.text("first_name", 1, 15);
        String last = form.text("last_name", 1, 15);
        int address = address(Address.of(form));
        BigDecimal discount =
                BigDecimal.valueOf(ThreadLocalRandom.current().nextInt(MOST_DISCOUNT_PERCENT + 1), 2);
        int id;
        try (PreparedStatement insert = db.prepareStatement(
                "INSERT INTO customer (c_fname, c_lname, c_addr_id, c_phone, c_email, c_since, c_last_login, c_login,"
                        + " c_expiration, c_discount, c_balance, c_ytd_pmt, c_birthdate, c_data) VALUES (?, ?, ?, ?, ?,"
                        + " CURRENT_DATE, NOW(), NOW(), NOW() + INTERVAL 2 HOUR, ?, 0, 0, ?, ?)",
                Statement.RETURN_GENERATED_KEYS)) {
            insert.setString(1, first);
            insert.setString(2, last);
            insert.setInt(3, address);
            insert.setString(4, form.text("phone", 1, 16));
            insert.setString(5, form.text("email", 1, 50));
            insert.setBigDecimal(6, discount);
            insert.setDate(7, Date.valueOf(form.date("birth_date")));
            insert.setString(8, form.has("data") ? form.text("data", 1, 500) : "");
            insert.executeUpdate();
            id = generated(insert);
        }
        String user = DigSyl.of(id);
        try (PreparedStatement name =
                db.prepareStatement("UPDATE customer SET c_uname = ?, c_passwd = ? WHERE c_id = ?")) {
            name.setString(1, user);
            name.setString(2, user.toLowerCase(Locale.ROOT));
            name.setInt(3, id);
            name.executeUpdate();
        }
        return new Customer(id, user, first, last, address, discount);
    }

    /** Stores an address and gives its number. */
    int address(Address address) throws SQLException {
        try (PreparedStatement insert = db.prepareStatement(
                "INSERT INTO address (addr_street1, addr_street2, addr_city, addr_state, addr_zip, addr_co_id)"
                        + " VALUES (?, ?, ?, ?, ?, ?)",
                Statement.RETURN_GENERATED_KEYS)) {
            insert.setString(1, address.street1());
            insert.setString(2, address.street2());
            insert.setString(3, address.city());
            insert.setString(4, address.state());
            insert.setString(5, address.zip());
            insert.setInt(6, country(address.country()));
            insert.executeUpdate();
            return generated(insert);
        }
    }

    /** An address. */
    Address addressOf(int id) throws SQLException {
        try (PreparedStatement query = db.prepareStatement(
                "SELECT addr_street1, addr_street2, addr_city, addr_state, addr_zip, co_name FROM address"
                        + " JOIN country ON co_id = addr_co_id WHERE addr_id = ?")) {
            query.setInt(1, id);
            ResultSet row = query.executeQuery();
            row.next();
            return new Address(
                    row.getString(1),
                    row.getString(2),
                    row.getString(3),
                    row.getString(4),
                    row.getString(5),
                    row.getString(6));
        }
    }

    /** The key that an insert has made. */
    static int generated(PreparedStatement insert) throws SQLException {
        ResultSet keys = insert.getGeneratedKeys();
        keys.next();
        return keys.getInt(1);
    }

    private int country(String name) throws SQLException {
        try (PreparedStatement query = db.prepareStatement("SELECT co_id FROM country WHERE co_name = ?")) {
            query.setString(1, name);
            ResultSet row = query.executeQuery();
            if (!row.next()) {
                throw Refused.badRequest("the shop sends nothing to this country");
            }
            return row.getInt(1);
        }
    }

    private static Optional<Customer> one(ResultSet row) throws SQLException {
        if (!row.next()) {
            return Optional.empty();
        }
        return Optional.of(new Customer(
                row.getInt(1),
                row.getString(2),
                row.getString(3),
                row.getString(4),
                row.getInt(5),
                row.getBigDecimal(6)));
    }
}
