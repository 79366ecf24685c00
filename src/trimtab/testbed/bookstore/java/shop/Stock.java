package shop;

/** How many pieces of an item the shop has. */
final class Stock {
    private static final int LEAST = 10;
    private static final int DELIVERY = 21;

    private Stock() {}

    /**
     * The stock after a sale: deliveries of 21 come until at least 10 are left. For quantities up to 10, which is
     * what browsers order, that is the specification's rule of one delivery.
     */
    static int after(int stock, int sold) {
        int left = stock - sold;
        int missing = Math.max(0, LEAST - left);
        return left + (missing + DELIVERY - 1) / DELIVERY * DELIVERY;
    }
}
