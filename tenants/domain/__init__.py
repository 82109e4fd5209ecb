"""Pure rules of tenants: no Django, no IO, no clock, no settings."""
