"""The REST door of tenants."""
