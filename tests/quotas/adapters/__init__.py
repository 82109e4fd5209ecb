"""Tests of quotas/adapters."""
