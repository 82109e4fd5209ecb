"""Outages of PostgreSQL under load: it stands still, or its disk is full."""
