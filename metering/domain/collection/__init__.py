"""Windows and what they are composed of: attribution, coverage, reconciliation."""
