"""Preemption plans and policies over REST."""
