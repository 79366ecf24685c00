package shop;

/** Whose order is asked for. */
final class OrderInquiry implements Page {
    @Override
    public Html render(Visit visit) {
        Html body = new Html().add("<form method=\"post\" action=\"/shop/order_display\"><p>Your latest order:</p>{}{}</form>\n",
                Layout.loginFields(), Layout.button("show", "Show"));
        return Layout.page("order_inquiry", "Where is my order?", body);
    }
}
