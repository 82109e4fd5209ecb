"""Tests of tenants/services."""
