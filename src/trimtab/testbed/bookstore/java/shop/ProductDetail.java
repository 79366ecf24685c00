package shop;

import java.sql.SQLException;

/** One book. */
final class ProductDetail implements Page {
    @Override
    public Html render(Visit visit) throws SQLException {
        Item item = visit.items.get(visit.form.number("item", 1, Integer.MAX_VALUE));
        Html body = new Html().add("<article class=\"product\"><img class=\"cover\" src=\"/shop/images/{}\" alt=\"\""
                + " width=\"200\" height=\"300\"><div><p class=\"author\">by {}</p><p>{}</p>",
                item.image(), item.author(), item.description());
        body.add("<p class=\"price\"><del>{}</del> <strong>{}</strong></p>"
                + "<p><a class=\"button\" data-item=\"{}\" href=\"/shop/shopping_cart?add={}\">"
                + "<img src=\"/shop/images/fixed/add.svg\" alt=\"\" width=\"16\" height=\"16\">Add to basket</a>"
                + " <a data-item=\"{}\" href=\"/shop/admin_request?item={}\">Edit</a></p>",
                Layout.dollars(item.srp()), Layout.dollars(item.cost()), item.id(), item.id(), item.id(), item.id());
        body.add("<dl><dt>Subject<dd>{}<dt>Published<dd>{}, {}<dt>Available<dd>{}<dt>In stock<dd>{}<dt>Binding<dd>{}"
                + "<dt>Pages<dd>{}<dt>Size<dd>{}<dt>ISBN<dd>{}</dl></div></article>\n",
                Layout.words(item.subject()), item.publisher(), item.published(), item.available(), item.stock(),
                item.backing(), item.pages(), item.dimensions(), item.isbn());
        return Layout.page("product_detail", item.title(), body);
    }
}
