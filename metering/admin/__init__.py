"""The admin door of metering."""
