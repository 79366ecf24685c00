package shop;

import java.math.BigDecimal;
import java.time.LocalDate;

/** A book with all that its page shows. */
record Item(
        int id,
        String title,
        String author,
        LocalDate published,
        String publisher,
        String subject,
        String description,
        String image,
        String thumbnail,
        BigDecimal srp,
        BigDecimal cost,
        LocalDate available,
        int stock,
        String isbn,
        int pages,
        String backing,
        String dimensions) {}
