package shop;

import java.math.BigDecimal;
import java.time.LocalDateTime;
import java.util.List;

/** An order as its page shows it. */
record Order(
        int id,
        LocalDateTime date,
        Money money,
        String shipping,
        LocalDateTime shipped,
        String status,
        int billTo,
        int shipTo,
        String cardType,
        String cardNumber,
        List<Line> lines) {

    /** Some pieces of one book. */
    record Line(int item, String title, int quantity, BigDecimal discount, String comments) {}
}
