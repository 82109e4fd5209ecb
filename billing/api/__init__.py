"""The REST door of billing."""
