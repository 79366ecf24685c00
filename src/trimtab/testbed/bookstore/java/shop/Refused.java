package shop;

/** A request that gets no page, with the status that says why. */
final class Refused extends RuntimeException {
    private static final long serialVersionUID = 1L;

    final int status;

    private Refused(int status, String message) {
        super(message, null, false, false);
        this.status = status;
    }

    /** The request is not one that a form or link of the shop makes. */
    static Refused badRequest(String message) {
        return new Refused(400, message);
    }

    /** Wrong name or password. */
    static Refused forbidden(String message) {
        return new Refused(403, message);
    }

    /** There is no such thing. */
    static Refused notFound(String message) {
        return new Refused(404, message);
    }
}
