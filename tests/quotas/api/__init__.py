"""Tests of quotas/api."""
