package shop;

/** Markup that grows; whatever is put into it is escaped, unless it is markup itself. */
final class Html {
    private final StringBuilder text = new StringBuilder(8192);

    /**
     * Appends markup.
     *
     * @param markup in which each "{}" stands for the next value
     * @param values numbers and strings, which are escaped, or other Html, which is not
     */
    Html add(String markup, Object... values) {
        int from = 0;
        for (Object value : values) {
            int hole = markup.indexOf("{}", from);
            text.append(markup, from, hole);
            put(value);
            from = hole + 2;
        }
        text.append(markup, from, markup.length());
        return this;
    }

    @Override
    public String toString() {
        return text.toString();
    }

    private void put(Object value) {
        if (value instanceof Html html) {
            text.append(html.text);
        } else {
            escape(String.valueOf(value));
        }
    }

    private void escape(String value) {
        for (int i = 0; i < value.length(); i++) {
            char c = value.charAt(i);
            switch (c) {
                case '&' -> text.append("&amp;");
                case '<' -> text.append("&lt;");
                case '>' -> text.append("&gt;");
                case '"' -> text.append("&quot;");
                case '\'' -> text.append("&#39;");
                default -> text.append(c);
            }
        }
    }
}
