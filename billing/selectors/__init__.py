"""Reads of billing: set-based SQL and frozen facts."""
