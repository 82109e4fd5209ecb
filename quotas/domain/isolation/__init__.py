"""Isolation: which device modes may serve the pods of a tenant."""
