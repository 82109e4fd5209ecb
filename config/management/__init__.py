"""Doors of the wiring on the command line."""
