package shop;

import java.sql.SQLException;
import java.util.List;

/** The till: the customer is known, the sum is shown, a card is asked for. */
final class BuyRequest implements Page {
    @Override
    public Html render(Visit visit) throws SQLException {
        boolean returning = visit.form.choice("returning", List.of("yes", "no")).equals("yes");
        int cart = visit.cart().orElseThrow(() -> Refused.badRequest("there is no basket"));
        Customer customer = returning ? visit.customers.login(visit.form) : visit.customers.register(visit.form);
        if (returning) {
            visit.customers.visited(customer.id());
        }
        visit.carts.own(cart, customer.id());
        visit.remember("customer", Integer.toString(customer.id()));
        List<CartLine> lines = visit.carts.lines(cart);
        if (lines.isEmpty()) {
            throw Refused.badRequest("the basket is empty");
        }
        Html body = new Html().add("<p class=\"greeting\">{} {}, your user name is <b>{}</b>; your discount is {} %.</p>\n{}",
                customer.firstName(), customer.lastName(), customer.userName(),
                customer.discount().movePointRight(2).intValue(),
                Layout.address(visit.customers.addressOf(customer.address())));
        body.add("<table class=\"cart\"><tr><th>Pieces<th>Book<th>Price</tr>\n");
        for (CartLine line : lines) {
            body.add("<tr data-line=\"{}\" data-quantity=\"{}\"><td>{}<td>{}<td>{}</tr>\n", line.item(), line.quantity(),
                    line.quantity(), line.title(), Layout.dollars(line.cost()));
        }
        body.add("</table>{}{}", Layout.costs(Money.of(lines, customer.discount())), form());
        return Layout.page("buy_request", "At the till", body);
    }

    private static Html form() {
        return new Html().add("<form method=\"post\" action=\"/shop/buy_confirm\"><h2>Pay by card</h2>{}{}{}{}{}"
                + "<details><summary>Send it to another address</summary>{}</details>{}</form>\n",
                Layout.choice("card_type", "Card", Card.TYPES),
                Layout.field("card_number", "Number", "text", 16, ""),
                Layout.field("card_name", "Name on the card", "text", 31, ""),
                Layout.field("card_expiry", "Valid until", "date", 10, ""),
                Layout.choice("shipping", "Send by", Orders.SHIPPING),
                Layout.addressFields(),
                Layout.button("checkout", "Buy"));
    }
}
