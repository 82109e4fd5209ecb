"""Quota requests: submitted, routed, decided and granted."""
