"""Clusters, and where their secrets may be sent."""
