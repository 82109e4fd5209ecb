"""Pure rules of billing: no Django, no IO, no clock, no settings."""
