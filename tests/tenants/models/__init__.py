"""Tests of tenants/models: what the database itself refuses."""
