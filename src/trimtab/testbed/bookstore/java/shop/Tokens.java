package shop;

import java.security.SecureRandom;
import java.util.HexFormat;

/** Words that nobody can guess. */
final class Tokens {
    private static final SecureRandom RANDOM = new SecureRandom();

    private Tokens() {}

    /** Sixteen hexadecimal digits. */
    static String fresh() {
        byte[] bytes = new byte[8];
        RANDOM.nextBytes(bytes);
        return HexFormat.of().formatHex(bytes);
    }
}
