package shop;

/** A book as one row of a list. */
record Listed(int id, String title, String author, String thumbnail) {}
