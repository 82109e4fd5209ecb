"""People, roles, tokens, sessions and sign-in."""
