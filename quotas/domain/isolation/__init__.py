"""Isolation: which ways of sharing a GPU may serve whose pods."""
