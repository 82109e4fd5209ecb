"""Quota requests: input, routing, and their text for people."""
