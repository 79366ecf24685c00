package shop;

import java.sql.SQLException;

/** One of the shop's fourteen pages. */
interface Page {
    /**
     * Makes the page.
     *
     * @return a whole document
     * @throws Refused the request gets no page
     */
    Html render(Visit visit) throws SQLException;
}
