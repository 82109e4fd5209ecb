"""Pure rules of metering: no Django, no IO, no clock, no settings."""
