"""Exports: what others take away."""
