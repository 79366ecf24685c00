package shop;

import java.sql.SQLException;
import java.util.List;

/** The basket is bought. */
final class BuyConfirm implements Page {
    @Override
    public Html render(Visit visit) throws SQLException {
        Card card = Card.of(visit.form);
        String shipping = visit.form.choice("shipping", Orders.SHIPPING);
        int cart = visit.cart().orElseThrow(() -> Refused.badRequest("there is no basket"));
        Customer customer =
                visit.customers.ofCart(cart).orElseThrow(() -> Refused.badRequest("the basket was not at the till"));
        List<CartLine> lines = visit.carts.linesToSell(cart);
        if (lines.isEmpty()) {
            throw Refused.badRequest("the basket is empty");
        }
        Money money = Money.of(lines, customer.discount());
        int shipTo = visit.form.has("street_1")
                ? visit.customers.address(Address.of(visit.form))
                : customer.address();
        int order = visit.orders.place(customer, lines, money, shipping, shipTo, card);
        visit.carts.remove(cart);
        visit.forget("cart");
        Html body = new Html().add("<p class=\"message\">Thank you, {}. Your order has the number <b data-order=\"{}\">{}</b>."
                + " It goes by {} to:</p>{}<ul>", customer.firstName(), order, order, shipping,
                Layout.address(visit.customers.addressOf(shipTo)));
        for (CartLine line : lines) {
            body.add("<li>{} × {}</li>\n", line.quantity(), line.title());
        }
        body.add("</ul>{}", Layout.costs(money));
        return Layout.page("buy_confirm", "Thank you", body);
    }
}
