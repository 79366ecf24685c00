package shop;

/** Who buys: a customer of before or a new one. */
final class CustomerRegistration implements Page {
    @Override
    public Html render(Visit visit) {
        Html body = new Html().add("<div class=\"columns\"><form method=\"post\" action=\"/shop/buy_request\">"
                + "<h2>I have been here before</h2><input type=\"hidden\" name=\"returning\" value=\"yes\">{}{}</form>\n",
                Layout.loginFields(), Layout.button("login", "Go on"));
        body.add("<form method=\"post\" action=\"/shop/buy_request\"><h2>I am new</h2>"
                + "<input type=\"hidden\" name=\"returning\" value=\"no\">{}{}{}{}{}{}{}{}</form></div>\n",
                Layout.field("first_name", "First name", "text", 15, ""),
                Layout.field("last_name", "Last name", "text", 15, ""),
                Layout.addressFields(),
                Layout.field("phone", "Phone", "tel", 16, ""),
                Layout.field("email", "E-mail", "text", 50, ""),
                Layout.field("birth_date", "Day of birth", "date", 10, ""),
                Layout.field("data", "Anything else", "text", 500, ""),
                Layout.button("register", "Register"));
        return Layout.page("customer_registration", "Who are you?", body);
    }
}
