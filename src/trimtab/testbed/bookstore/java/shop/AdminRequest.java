package shop;

import java.sql.SQLException;

/** The form that changes a book. */
final class AdminRequest implements Page {
    @Override
    public Html render(Visit visit) throws SQLException {
        Item item = visit.items.get(visit.form.number("item", 1, Integer.MAX_VALUE));
        Html body = new Html().add("<article class=\"product\"><img class=\"cover\" src=\"/shop/images/{}\" alt=\"\""
                + " width=\"200\" height=\"300\"><form method=\"post\" action=\"/shop/admin_confirm\"><p>{}, by {}</p>"
                + "<input type=\"hidden\" name=\"item\" value=\"{}\">{}{}{}{}</form></article>\n",
                item.image(), item.title(), item.author(), item.id(),
                Layout.field("cost", "Price", "text", 9, item.cost().toPlainString()),
                Layout.field("image", "Image", "text", 40, item.image()),
                Layout.field("thumbnail", "Small image", "text", 40, item.thumbnail()),
                Layout.button("edit", "Change"));
        return Layout.page("admin_request", "Edit a book", body);
    }
}
