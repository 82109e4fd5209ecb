"""Headroom: whether and when units may start."""
