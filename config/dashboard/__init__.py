"""The admin's first page: cost and use by organization, capacity, and what waits for a person."""
