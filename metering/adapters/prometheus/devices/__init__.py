"""Devices as one Prometheus shows them: aggregates where they are exact, else raw samples."""
