"""Writes of billing: one function is one transaction and one audit entry."""
