package shop;

import java.sql.SQLException;
import java.util.Optional;

/** The first page. */
final class Home implements Page {
    @Override
    public Html render(Visit visit) throws SQLException {
        Optional<Customer> customer;
        if (visit.form.has("customer")) {
            int id = visit.form.number("customer", 1, Integer.MAX_VALUE);
            customer = visit.customers.find(id);
            if (customer.isEmpty()) {
                throw Refused.notFound("there is no customer " + id);
            }
            visit.remember("customer", Integer.toString(id));
        } else {
            customer = visit.customer();
        }
        Html body = new Html();
        customer.ifPresent(c -> body.add("<p class=\"greeting\">Welcome back, {} {}.</p>\n", c.firstName(), c.lastName()));
        body.add("{}<div class=\"columns\"><section><h2>What is new</h2>{}</section>"
                + "<section><h2>Best sellers</h2>{}</section></div>\n",
                Layout.promotions(visit), Layout.subjects("new_products"), Layout.subjects("best_sellers"));
        return Layout.page("home", "Welcome", body);
    }
}
