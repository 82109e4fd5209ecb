"""Tests of tenants/admin."""
