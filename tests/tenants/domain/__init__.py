"""Tests of tenants/domain."""
