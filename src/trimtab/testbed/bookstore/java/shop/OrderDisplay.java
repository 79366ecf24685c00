package shop;

import java.sql.SQLException;
import java.util.Optional;

/** A customer's latest order. */
final class OrderDisplay implements Page {
    @Override
    public Html render(Visit visit) throws SQLException {
        Customer customer = visit.customers.login(visit.form);
        Optional<Order> latest = visit.orders.latest(customer.id());
        Html body = latest.isPresent()
                ? body(visit, latest.get())
                : new Html().add("<p class=\"message\">You have not ordered anything yet.</p>\n");
        return Layout.page("order_display", "Your latest order", body);
    }

    private static Html body(Visit visit, Order order) throws SQLException {
        Html body = new Html().add("<p>Order <b data-order=\"{}\">{}</b> of {}: {}, by {} on {}.</p>"
                + "<div class=\"columns\"><section><h2>Billed to</h2>{}",
                order.id(), order.id(), order.date().toLocalDate(), order.status(), order.shipping(),
                order.shipped().toLocalDate(), Layout.address(visit.customers.addressOf(order.billTo())));
        if (order.cardType() != null) {
            body.add("<p>{} {}</p>", order.cardType(), Card.masked(order.cardNumber()));
        }
        body.add("</section><section><h2>Sent to</h2>{}</section></div><table class=\"cart\">"
                + "<tr><th>Pieces<th>Book<th>Discount<th>Note</tr>\n", Layout.address(visit.customers.addressOf(order.shipTo())));
        for (Order.Line line : order.lines()) {
            body.add("<tr><td>{}<td><a data-item=\"{}\" href=\"/shop/product_detail?item={}\">{}</a><td>{} %<td>{}</tr>\n",
                    line.quantity(), line.item(), line.item(), line.title(),
                    line.discount().movePointRight(2).intValue(), line.comments());
        }
        return body.add("</table>{}", Layout.costs(order.money()));
    }
}
