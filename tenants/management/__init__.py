"""Commands of tenants."""
