"""The systems under control, one file each."""
