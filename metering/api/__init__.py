"""The REST views of metering."""
