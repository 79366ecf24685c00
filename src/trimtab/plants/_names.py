"""Names of knobs that more than one file of trimtab has to read in a configuration."""

PROCESS_BUDGET = "process_budget"
"""Most workers that a class of clients may hold; the knob is this name, an `@` and the class."""
KEEP_ALIVE = "keep_alive_ms"
"""After how long an idle connection is ended."""
