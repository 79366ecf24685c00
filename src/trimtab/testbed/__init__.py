"""Private instances of real servers, confined, for experiments and tests."""
