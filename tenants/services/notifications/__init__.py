"""Notifications: an outbox, its endpoints and deliveries."""
