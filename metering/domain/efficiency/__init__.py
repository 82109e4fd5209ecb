"""Waste, and what would have served instead."""
