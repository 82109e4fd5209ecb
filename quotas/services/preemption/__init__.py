"""Preemption plans: made, executed step by step, stopped and resumed."""
