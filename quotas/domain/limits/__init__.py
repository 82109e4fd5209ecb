"""Limits and grants: what they are about, what they say, and how they form a tree."""
