"""Schema history of metering."""
