"""The admin door of quotas."""
