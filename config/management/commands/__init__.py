"""Commands that span the apps."""
