"""One file per paper: its figures and tables on the testbed."""
