"""Limits, grants, suspensions and quota usage over REST."""
