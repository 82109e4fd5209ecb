"""Waste and health, derived from sealed windows."""
