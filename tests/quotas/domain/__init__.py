"""Tests of quotas/domain."""
