"""Management commands of the whole service."""
