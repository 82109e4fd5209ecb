"""Reading prices: lookups, drafts, repricings and estimates."""
