"""TODO-INIT."""
