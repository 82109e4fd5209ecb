"""Reads of quotas: set-based SQL and frozen facts."""
