"""IO of quotas: they know no model."""
