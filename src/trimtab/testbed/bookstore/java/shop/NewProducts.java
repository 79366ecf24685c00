package shop;

import java.sql.SQLException;

/** The newest books of a subject. */
final class NewProducts implements Page {
    @Override
    public Html render(Visit visit) throws SQLException {
        String subject = visit.form.choice("subject", Shop.SUBJECTS);
        Html body = new Html().add("{}{}", Layout.promotions(visit), Layout.books(visit.items.newest(subject)));
        return Layout.page("new_products", "New in " + Layout.words(subject), body);
    }
}
