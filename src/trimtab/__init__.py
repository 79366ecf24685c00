"""trimtab keeps a web stack at its best operating point: it observes, decides, guards, applies and records."""

__version__ = "0.1.0"
