"""Quota requests: asked for, routed, decided and granted."""
