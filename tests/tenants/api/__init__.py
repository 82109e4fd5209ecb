"""Tests of tenants/api."""
