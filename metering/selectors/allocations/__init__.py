"""Reads of the allocation ledger and of the watches that write it."""
