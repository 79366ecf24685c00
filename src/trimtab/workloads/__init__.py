"""The traffic models, one file each: data for the load generator."""
