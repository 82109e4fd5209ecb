"""Reads of the journal and of what happens beside final documents."""
