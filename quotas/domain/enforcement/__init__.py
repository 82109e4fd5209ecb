"""Enforcement: how limits become ResourceQuotas of namespaces."""
