"""A simulated cluster as Prometheus sees it: its series, their texts, and who serves them."""
