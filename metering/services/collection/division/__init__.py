"""Windows of many pods, metered in parts by any workers and finished together."""
