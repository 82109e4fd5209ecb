"""Filters of the tenant pages."""
