package shop;

import jakarta.servlet.http.Cookie;
import jakarta.servlet.http.HttpServletRequest;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** One request: what it asks for, by whom, and what the shop has to answer with. */
final class Visit {
    private static final Pattern CART = Pattern.compile("([0-9]{1,9})-([0-9a-f]{16})");
    private static final Pattern CUSTOMER = Pattern.compile("[0-9]{1,9}");

    final Form form;
    final boolean post;
    final Connection db;
    final Items items;
    final Carts carts;
    final Customers customers;
    final Orders orders;
    final BestSellers bestSellers;
    final List<Cookie> cookies = new ArrayList<>();
    private final HttpServletRequest request;

    Visit(HttpServletRequest request, Connection db, BestSellers bestSellers) {
        this.request = request;
        this.form = new Form(request);
        this.post = request.getMethod().equals("POST");
        this.db = db;
        this.items = new Items(db);
        this.carts = new Carts(db);
        this.customers = new Customers(db);
        this.orders = new Orders(db);
        this.bestSellers = bestSellers;
    }

    /** The visitor's cart, held until the transaction ends; none where he has none that the shop knows. */
    Optional<Integer> cart() throws SQLException {
        Matcher parts = CART.matcher(cookie("cart"));
        if (!parts.matches()) {
            return Optional.empty();
        }
        int cart = Integer.parseInt(parts.group(1));
        return carts.hold(cart, parts.group(2)) ? Optional.of(cart) : Optional.empty();
    }

    /** Makes a cart for the visitor. */
    int newCart() throws SQLException {
        String token = Tokens.fresh();
        int cart = carts.create(token);
        remember("cart", cart + "-" + token);
        return cart;
    }

    /** The customer that the visitor says he is: enough for a greeting. */
    Optional<Customer> customer() throws SQLException {
        String id = cookie("customer");
        return CUSTOMER.matcher(id).matches() ? customers.find(Integer.parseInt(id)) : Optional.empty();
    }

    /** Sets a cookie. */
    void remember(String name, String value) {
        set(name, value, -1);
    }

    /** Takes a cookie back. */
    void forget(String name) {
        set(name, "", 0);
    }

    private void set(String name, String value, int ageS) {
        Cookie cookie = new Cookie(name, value);
        cookie.setPath("/shop");
        cookie.setHttpOnly(true);
        cookie.setAttribute("SameSite", "Lax");
        cookie.setMaxAge(ageS);
        cookies.add(cookie);
    }

    private String cookie(String name) {
        Cookie[] sent = request.getCookies();
        for (Cookie cookie : sent == null ? new Cookie[0] : sent) {
            if (cookie.getName().equals(name)) {
                return cookie.getValue();
            }
        }
        return "";
    }
}
