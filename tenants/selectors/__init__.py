"""Reads of tenants: set-based SQL and frozen facts."""
