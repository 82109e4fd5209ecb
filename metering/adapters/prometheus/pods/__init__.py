"""Pods that requested a GPU: queries about them, and what the responses show."""
