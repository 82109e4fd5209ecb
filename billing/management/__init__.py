"""Commands of billing."""
