"""Pure rules of quotas: no Django, no IO, no clock, no settings."""
