package shop;

import java.time.LocalDate;
import java.util.List;
import java.util.regex.Pattern;

/** A credit card. Nobody is asked whether it is good. */
record Card(String type, String number, String name, LocalDate expiry) {
    static final List<String> TYPES = List.of("VISA", "MASTERCARD", "DISCOVER", "DINERS", "AMEX");
    private static final Pattern DIGITS = Pattern.compile("[0-9]{8,16}");

    /** The card that a form holds. */
    static Card of(Form form) {
        String number = form.text("card_number", 8, 16);
        if (!DIGITS.matcher(number).matches()) {
            throw Refused.badRequest("card_number is not 8 to 16 digits");
        }
        return new Card(form.choice("card_type", TYPES), number, form.text("card_name", 1, 31), form.date("card_expiry"));
    }

    /** The number as a page may show it. */
    static String masked(String number) {
        return "•••• " + number.substring(Math.max(0, number.length() - 4));
    }
}
