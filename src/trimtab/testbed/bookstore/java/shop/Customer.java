package shop;

import java.math.BigDecimal;

/** A customer, as far as pages need one. */
record Customer(int id, String userName, String firstName, String lastName, int address, BigDecimal discount) {}
