"""Tests of the command lines of tenants."""
