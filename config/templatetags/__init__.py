"""Filters of the admin."""
