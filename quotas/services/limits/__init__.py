"""Writing limits, grants and suspensions."""
