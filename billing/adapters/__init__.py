"""IO of billing, without models."""
