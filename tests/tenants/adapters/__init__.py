"""Tests of tenants/adapters."""
