"""The admin door of tenants."""
