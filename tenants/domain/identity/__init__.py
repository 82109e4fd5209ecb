"""Identity: roles, sign-in, and changes of accounts."""
