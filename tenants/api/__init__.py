"""The REST views of tenants."""
