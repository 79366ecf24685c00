"""The sources of readings, one file each."""
