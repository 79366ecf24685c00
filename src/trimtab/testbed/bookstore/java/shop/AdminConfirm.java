package shop;

import java.sql.SQLException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A book has been changed. */
final class AdminConfirm implements Page {
    private static final Pattern IMAGE = Pattern.compile("(?:/shop/images/)?((?:item|thumb)/[0-9]{1,9}\\.png)");

    @Override
    public Html render(Visit visit) throws SQLException {
        int id = visit.form.number("item", 1, Integer.MAX_VALUE);
        visit.items.change(id, visit.form.amount("cost"), image(visit.form, "image"), image(visit.form, "thumbnail"));
        Item item = visit.items.get(id);
        Html body = new Html().add("<article class=\"product\"><img class=\"cover\" src=\"/shop/images/{}\" alt=\"\""
                + " width=\"200\" height=\"300\"><div><p><a data-item=\"{}\" href=\"/shop/product_detail?item={}\">{}</a>, by {}</p>"
                + "<p class=\"price\"><strong>{}</strong></p><img src=\"/shop/images/{}\" alt=\"\" width=\"75\" height=\"110\">"
                + "</div></article>\n", item.image(), id, id, item.title(), item.author(),
                Layout.dollars(item.cost()), item.thumbnail());
        return Layout.page("admin_confirm", "Changed", body);
    }

    /** One of the shop's own images, by its path with or without that of all images. */
    private static String image(Form form, String name) {
        Matcher path = IMAGE.matcher(form.text(name, 1, 60));
        if (!path.matches()) {
            throw Refused.badRequest(name + " is no image of the shop, such as item/1.png");
        }
        return path.group(1);
    }
}
