"""People's roles, tokens, sessions and invitations over REST."""
