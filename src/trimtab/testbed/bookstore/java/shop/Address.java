package shop;

/** Where something is sent. */
record Address(String street1, String street2, String city, String state, String zip, String country) {

    /** The address that a form holds. */
    static Address of(Form form) {
        return new Address(
                form.text("street_1", 1, 40),
                form.has("street_2") ? form.text("street_2", 1, 40) : "",
                form.text("city", 1, 30),
                form.text("state", 0, 20),
                form.text("zip", 1, 10),
                form.text("country", 1, 50));
    }
}
