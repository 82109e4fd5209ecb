"""Upgrades of databases that hold data."""
