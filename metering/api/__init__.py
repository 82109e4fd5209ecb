"""The REST door of metering."""
