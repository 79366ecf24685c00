package shop;

import java.math.BigDecimal;
import java.sql.SQLException;
import java.util.List;
import java.util.Locale;

/** What pages have in common. */
final class Layout {
    private static final String[][] BUTTONS = {
        {"home", "Home"}, {"search_request", "Search"}, {"shopping_cart", "Basket"}, {"order_inquiry", "Orders"}
    };

    private Layout() {}

    /** A whole document. */
    static Html page(String name, String title, Html body) {
        Html html = new Html().add("""
                <!doctype html>
                <html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
                <title>{} · The Bookstore</title><link rel="stylesheet" href="/shop/style.css">
                <link rel="icon" href="/shop/images/fixed/logo.svg"></head>
                <body data-page="{}"><header><a class="brand" href="/shop/home"><img src="/shop/images/fixed/logo.svg" \
                alt="" width="40" height="40">The Bookstore</a><nav>""", title, name);
        for (String[] button : BUTTONS) {
            html.add("<a href=\"/shop/{}\"><img src=\"/shop/images/fixed/{}.svg\" alt=\"\" width=\"20\" height=\"20\">{}</a>",
                    button[0], button[0], button[1]);
        }
        return html.add("</nav></header>\n<main><h1>{}</h1>\n{}</main>\n"
                + "<footer>A shop for measurements. Nothing is sold, nothing is sent.</footer></body></html>\n", title, body);
    }

    /** Five books that go with any book. */
    static Html promotions(Visit visit) throws SQLException {
        Html html = new Html().add("<section class=\"promotions\"><h2>You may like</h2><ul>");
        for (Listed book : visit.items.related(visit.items.any())) {
            html.add("<li><a data-item=\"{}\" href=\"/shop/product_detail?item={}\"><img src=\"/shop/images/{}\" alt=\"\""
                    + " width=\"75\" height=\"110\"><span>{}</span></a></li>", book.id(), book.id(), book.thumbnail(), book.title());
        }
        return html.add("</ul></section>\n");
    }

    /** A list of books. */
    static Html books(List<Listed> books) {
        if (books.isEmpty()) {
            return new Html().add("<p class=\"message\">No book was found.</p>\n");
        }
        Html html = new Html().add("<ol class=\"books\">");
        for (Listed book : books) {
            html.add("<li><a data-item=\"{}\" href=\"/shop/product_detail?item={}\">{}</a> <span class=\"author\">{}</span></li>\n",
                    book.id(), book.id(), book.title(), book.author());
        }
        return html.add("</ol>\n");
    }

    /** The links of all subjects to a page. */
    static Html subjects(String page) {
        Html html = new Html().add("<ul class=\"subjects\">");
        for (String subject : Shop.SUBJECTS) {
            html.add("<li><a href=\"/shop/{}?subject={}\">{}</a></li>", page, subject, words(subject));
        }
        return html.add("</ul>\n");
    }

    /** A field of a form with its label. */
    static Html field(String name, String label, String type, int most, Object value) {
        return new Html().add("<label>{}<input name=\"{}\" type=\"{}\" maxlength=\"{}\" value=\"{}\"></label>\n",
                label, name, type, most, value);
    }

    /** A choice of a form with its label. */
    static Html choice(String name, String label, List<String> values) {
        Html html = new Html().add("<label>{}<select name=\"{}\">", label, name);
        for (String value : values) {
            html.add("<option>{}</option>", value);
        }
        return html.add("</select></label>\n");
    }

    /** A form's button. */
    static Html button(String icon, String label) {
        return new Html().add("<button><img src=\"/shop/images/fixed/{}.svg\" alt=\"\" width=\"16\" height=\"16\">{}</button>",
                icon, label);
    }

    /** The fields of an address. */
    static Html addressFields() {
        return new Html().add("{}{}{}{}{}{}",
                field("street_1", "Street", "text", 40, ""),
                field("street_2", "Street, more", "text", 40, ""),
                field("city", "City", "text", 30, ""),
                field("state", "State", "text", 20, ""),
                field("zip", "Postcode", "text", 10, ""),
                field("country", "Country", "text", 50, ""));
    }

    /** User name and password. */
    static Html loginFields() {
        return new Html().add("{}{}",
                field("username", "User name", "text", 20, ""), field("password", "Password", "password", 20, ""));
    }

    /** An address on one line. */
    static Html address(Address address) {
        return new Html().add("<address>{}, {}<br>{} {} {}<br>{}</address>\n", address.street1(), address.street2(),
                address.zip(), address.city(), address.state(), address.country());
    }

    /** The costs of an order. */
    static Html costs(Money money) {
        return new Html().add("<table class=\"costs\"><tr><th>Books<td>{}<tr><th>Tax<td>{}<tr><th>Shipping<td>{}"
                + "<tr class=\"total\"><th>Total<td>{}</table>\n",
                dollars(money.subTotal()), dollars(money.tax()), dollars(money.shipping()), dollars(money.total()));
    }

    /** An amount as the shop writes it. */
    static String dollars(BigDecimal amount) {
        return String.format(Locale.ROOT, "$%,.2f", amount);
    }

    /** A subject as people write it. */
    static String words(String subject) {
        return subject.charAt(0) + subject.substring(1).toLowerCase(Locale.ROOT);
    }
}
