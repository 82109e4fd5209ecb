"""Commands of metering."""
