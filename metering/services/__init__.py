"""Writes of metering: one function is one transaction and one audit entry."""
