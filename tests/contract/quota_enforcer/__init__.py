"""One suite that every quota enforcer passes."""
