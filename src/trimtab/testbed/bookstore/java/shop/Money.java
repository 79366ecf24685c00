package shop;

import java.math.BigDecimal;
import java.math.RoundingMode;
import java.util.List;

/** What an order costs: all amounts have two decimals, rounded half up. */
record Money(BigDecimal subTotal, BigDecimal tax, BigDecimal shipping, BigDecimal total) {
    private static final BigDecimal TAX_RATIO = new BigDecimal("0.0825");
    private static final BigDecimal SHIPPING_BASE = new BigDecimal("3.00");
    private static final BigDecimal SHIPPING_PER_ITEM = new BigDecimal("1.00");

    /**
     * The costs of some lines.
     *
     * @param discount the customer's, from 0 to 1
     */
    static Money of(List<CartLine> lines, BigDecimal discount) {
        BigDecimal sum = BigDecimal.ZERO;
        int pieces = 0;
        for (CartLine line : lines) {
            sum = sum.add(line.cost().multiply(BigDecimal.valueOf(line.quantity())));
            pieces += line.quantity();
        }
        BigDecimal subTotal = cents(sum.multiply(BigDecimal.ONE.subtract(discount)));
        BigDecimal tax = cents(subTotal.multiply(TAX_RATIO));
        BigDecimal shipping = SHIPPING_BASE.add(SHIPPING_PER_ITEM.multiply(BigDecimal.valueOf(pieces)));
        return new Money(subTotal, tax, shipping, subTotal.add(tax).add(shipping));
    }

    private static BigDecimal cents(BigDecimal amount) {
        return amount.setScale(2, RoundingMode.HALF_UP);
    }
}
