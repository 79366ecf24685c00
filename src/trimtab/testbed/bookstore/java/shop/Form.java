package shop;

import jakarta.servlet.http.HttpServletRequest;
import java.math.BigDecimal;
import java.time.DateTimeException;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;

/** The parameters of a request. What the shop's own forms would not send is refused with status 400. */
final class Form {
    private static final Pattern NUMBER = Pattern.compile("[0-9]{1,9}");
    private static final Pattern AMOUNT = Pattern.compile("[0-9]{1,6}(\\.[0-9]{1,2})?");
    private static final Pattern CONTROL = Pattern.compile("[\\p{Cc}&&[^\\r\\n\\t]]|\\p{Cs}");

    private final HttpServletRequest request;

    Form(HttpServletRequest request) {
        this.request = request;
        request.getParameterMap();
        if (request.getAttribute("org.apache.catalina.parameter_parse_failed") != null) {
            throw Refused.badRequest("the parameters cannot be read");
        }
    }

    /** Whether a parameter was sent and is not empty. */
    boolean has(String name) {
        String value = request.getParameter(name);
        return value != null && !value.isEmpty();
    }

    /** A text of a length, in characters, between two bounds. */
    String text(String name, int least, int most) {
        String value = request.getParameter(name);
        if (value == null) {
            throw Refused.badRequest(name + " is missing");
        }
        int length = value.codePointCount(0, value.length());
        if (length < least || length > most) {
            throw Refused.badRequest(name + " has " + length + " characters; " + least + " to " + most + " are allowed");
        }
        if (CONTROL.matcher(value).find()) {
            throw Refused.badRequest(name + " holds characters that are no text");
        }
        return value;
    }

    /** One of some texts. */
    String choice(String name, List<String> allowed) {
        String value = text(name, 1, 30);
        if (!allowed.contains(value)) {
            throw Refused.badRequest(name + " is none of " + String.join(", ", allowed));
        }
        return value;
    }

    /** A whole number between two bounds. */
    int number(String name, int least, int most) {
        return number(name, text(name, 1, 9), least, most);
    }

    /** All whole numbers of a name, in the order of the form. */
    List<Integer> numbers(String name, int least, int most) {
        String[] values = request.getParameterValues(name);
        List<Integer> found = new ArrayList<>();
        for (String value : values == null ? new String[0] : values) {
            found.add(number(name, value, least, most));
        }
        return found;
    }

    /** An amount of money up to 999999.99. */
    BigDecimal amount(String name) {
        String value = text(name, 1, 9);
        if (!AMOUNT.matcher(value).matches()) {
            throw Refused.badRequest(name + " is no amount such as 12.50");
        }
        return new BigDecimal(value);
    }

    /** A day, as yyyy-mm-dd. */
    LocalDate date(String name) {
        String value = text(name, 10, 10);
        try {
            LocalDate day = LocalDate.parse(value);
            if (day.getYear() >= 1800) {
                return day;
            }
        } catch (DateTimeException error) {
            // refused below, like a day long ago
        }
        throw Refused.badRequest(name + " is no day such as 1970-12-31");
    }

    private static int number(String name, String value, int least, int most) {
        if (NUMBER.matcher(value).matches()) {
            int number = Integer.parseInt(value);
            if (number >= least && number <= most) {
                return number;
            }
        }
        throw Refused.badRequest(name + " is no whole number from " + least + " to " + most);
    }
}
