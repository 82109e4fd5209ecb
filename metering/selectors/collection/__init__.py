"""Reads of windows and of usage and capacity in them."""
