"""Reads of limits and of the units that count against them."""
