"""The admin door of billing."""
