"""Price books, drafts of prices, rating, repricing and tier schedules."""
