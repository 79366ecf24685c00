"""The methods that decide, one file each; the file name is the registered name."""
