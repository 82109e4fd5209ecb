"""Reads for enforcement: targets and namespaces."""
