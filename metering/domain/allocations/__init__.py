"""Allocations: what pods and claims held, and from when until when."""
