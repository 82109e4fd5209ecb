"""Enforcement: limits are written into the clusters and checked there."""
