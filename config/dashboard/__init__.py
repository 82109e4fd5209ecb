"""The admin's first page: cost and use by organization, capacity, and what needs a decision."""
