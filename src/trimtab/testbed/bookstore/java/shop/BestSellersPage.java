package shop;

import java.sql.SQLException;

/** What sells best of a subject. */
final class BestSellersPage implements Page {
    @Override
    public Html render(Visit visit) throws SQLException {
        String subject = visit.form.choice("subject", Shop.SUBJECTS);
        Html body = new Html().add("{}{}", Layout.promotions(visit), Layout.books(visit.bestSellers.of(visit.db, subject)));
        return Layout.page("best_sellers", "Best sellers in " + Layout.words(subject), body);
    }
}
