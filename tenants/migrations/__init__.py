"""Schema history of tenants."""
