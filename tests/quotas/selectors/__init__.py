"""Tests of quotas/selectors."""
