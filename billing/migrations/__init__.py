"""Schema history of billing."""
