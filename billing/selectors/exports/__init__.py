"""Exports: the month of each organization, FOCUS, tables of a month, and scheduled runs."""
