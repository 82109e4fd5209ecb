"""Tests of tenants/selectors."""
