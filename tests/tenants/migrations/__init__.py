"""Tests of tenants/migrations."""
