"""Reads of device figures and of shared devices."""
