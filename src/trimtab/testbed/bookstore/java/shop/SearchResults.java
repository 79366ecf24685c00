package shop;

import java.sql.SQLException;
import java.util.List;
import java.util.Locale;

/** What a search has found. */
final class SearchResults implements Page {
    private static final List<String> TYPES = List.of("author", "title", "subject");

    @Override
    public Html render(Visit visit) throws SQLException {
        String type = visit.form.choice("type", TYPES);
        String search = visit.form.text("search", 1, 60);
        List<Listed> found = switch (type) {
            case "author" -> visit.items.by(search);
            case "title" -> visit.items.titled(search);
            default -> visit.items.ofSubject(search.toUpperCase(Locale.ROOT));
        };
        Html body = new Html().add("{}{}{}", Layout.promotions(visit), SearchRequest.form(search, type), Layout.books(found));
        return Layout.page("search_results", "Found", body);
    }
}
