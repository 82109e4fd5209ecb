"""IO of billing: they know no model."""
