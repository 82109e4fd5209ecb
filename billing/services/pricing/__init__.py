"""Writing prices, price books, drafts of prices and tier schedules."""
