"""Devices: figures, energy, errors, and whose they are."""
