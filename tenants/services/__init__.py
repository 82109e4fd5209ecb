"""Writes of tenants: one function is one transaction and one audit entry."""
