package shop;

import java.sql.SQLException;

/** The form of a search. */
final class SearchRequest implements Page {
    @Override
    public Html render(Visit visit) throws SQLException {
        Html body = new Html().add("{}{}<h2>By subject</h2>", Layout.promotions(visit), form("", "title"));
        for (String subject : Shop.SUBJECTS) {
            body.add("<a class=\"tag\" href=\"/shop/search_results?type=subject&amp;search={}\">{}</a> ",
                    subject, Layout.words(subject));
        }
        return Layout.page("search_request", "Search", body);
    }

    /** The form, with what was searched for before. */
    static Html form(String search, String type) {
        Html html = new Html().add("<form class=\"search\" action=\"/shop/search_results\"><select name=\"type\">");
        for (String[] option : new String[][] {{"title", "Title begins with"}, {"author", "Author's last name begins with"}, {"subject", "Subject"}}) {
            html.add(option[0].equals(type) ? "<option value=\"{}\" selected>{}</option>" : "<option value=\"{}\">{}</option>",
                    option[0], option[1]);
        }
        return html.add("</select><input name=\"search\" maxlength=\"60\" required value=\"{}\">{}</form>\n",
                search, Layout.button("search", "Search"));
    }
}
