"""Admission webhooks: API servers call them before a pod is created."""
