"""Writes of quotas: one function is one transaction and one audit entry."""
