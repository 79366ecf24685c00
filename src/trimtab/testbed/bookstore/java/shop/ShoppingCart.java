package shop;

import java.math.BigDecimal;
import java.sql.SQLException;
import java.util.List;
import java.util.Optional;

/** The basket. It is never empty: the shop puts a book into an empty one, as the specification asks. */
final class ShoppingCart implements Page {
    private static final int MOST_LINES = 100;

    @Override
    public Html render(Visit visit) throws SQLException {
        Optional<Integer> known = visit.cart();
        int cart = known.isPresent() ? known.get() : visit.newCart();
        if (visit.post) {
            refresh(visit, cart);
        } else if (visit.form.has("add")) {
            visit.carts.add(cart, visit.form.number("add", 1, Integer.MAX_VALUE));
        }
        List<CartLine> lines = visit.carts.lines(cart);
        if (lines.isEmpty()) {
            visit.carts.add(cart, visit.items.any());
            lines = visit.carts.lines(cart);
        }
        if (lines.size() > MOST_LINES) {
            throw Refused.badRequest("a basket holds at most " + MOST_LINES + " different books");
        }
        return Layout.page("shopping_cart", "Your basket", body(visit, lines));
    }

    private static void refresh(Visit visit, int cart) throws SQLException {
        List<Integer> items = visit.form.numbers("line", 1, Integer.MAX_VALUE);
        List<Integer> quantities = visit.form.numbers("quantity", 0, Carts.MOST_PIECES);
        if (items.size() != quantities.size() || items.size() > MOST_LINES) {
            throw Refused.badRequest("line and quantity do not come in pairs");
        }
        visit.carts.refresh(cart, items, quantities);
    }

    private static Html body(Visit visit, List<CartLine> lines) throws SQLException {
        Html body = new Html().add("<form method=\"post\" action=\"/shop/shopping_cart\"><table class=\"cart\">"
                + "<tr><th>Pieces<th>Book<th>List price<th>Our price</tr>\n");
        for (CartLine line : lines) {
            body.add("<tr data-line=\"{}\" data-quantity=\"{}\"><td><input type=\"hidden\" name=\"line\" value=\"{}\">"
                    + "<input class=\"number\" name=\"quantity\" type=\"number\" min=\"0\" max=\"{}\" value=\"{}\">",
                    line.item(), line.quantity(), line.item(), Carts.MOST_PIECES, line.quantity());
            body.add("<td><a data-item=\"{}\" href=\"/shop/product_detail?item={}\">{}</a> {}<td><del>{}</del><td>{}</tr>\n",
                    line.item(), line.item(), line.title(), line.backing(), Layout.dollars(line.srp()), Layout.dollars(line.cost()));
        }
        BigDecimal sum = Money.of(lines, BigDecimal.ZERO).subTotal();
        return body.add("<tr class=\"total\"><td><td>Sum<td><td>{}</tr></table>{} "
                + "<a class=\"button\" href=\"/shop/customer_registration\"><img src=\"/shop/images/fixed/checkout.svg\" alt=\"\""
                + " width=\"16\" height=\"16\">To the till</a></form>\n{}",
                Layout.dollars(sum), Layout.button("refresh", "Update"), Layout.promotions(visit));
    }
}
