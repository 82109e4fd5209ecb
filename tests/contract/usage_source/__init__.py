"""One suite for every usage source: a real Prometheus with a simulated history, and its twin."""
