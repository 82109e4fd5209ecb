"""Servers run as children of the demo and the tests; never imported in production."""
