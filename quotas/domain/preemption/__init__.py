"""Preemption: what is over its limit, and which workloads end."""
