"""Tests of the tables of quotas."""
