"""Tests of quotas/services."""
