package shop;

import java.math.BigDecimal;

/** Some pieces of one book in a cart. */
record CartLine(int item, String title, BigDecimal cost, BigDecimal srp, String backing, int quantity, int stock) {}
