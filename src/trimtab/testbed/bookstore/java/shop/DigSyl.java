package shop;

/** Numbers written in syllables, one for each decimal digit: the user names of customers. */
final class DigSyl {
    private static final String[] SYLLABLES = {"BA", "OG", "AL", "RI", "RE", "SE", "AT", "UL", "IN", "NG"};

    private DigSyl() {}

    /** A number in syllables, without leading zeros. */
    static String of(long number) {
        StringBuilder word = new StringBuilder();
        for (char digit : Long.toString(number).toCharArray()) {
            word.append(SYLLABLES[digit - '0']);
        }
        return word.toString();
    }
}
