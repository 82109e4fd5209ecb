"""The REST views of billing."""
