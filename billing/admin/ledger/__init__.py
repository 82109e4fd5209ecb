"""Admin of the journal and of payments."""
