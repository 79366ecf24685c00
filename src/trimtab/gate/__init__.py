"""The gate as Python sees it: what is asked of it (`spec`), where it runs (`place`), how it is spoken to (`link`)."""
