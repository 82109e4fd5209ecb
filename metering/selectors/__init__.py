"""Reads of metering: set-based SQL and frozen facts."""
