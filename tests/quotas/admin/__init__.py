"""Tests of quotas/admin."""
