"""IO of metering: they know no model."""
