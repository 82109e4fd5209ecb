"""Exceptions, decisions, rechecks and corrections of windows."""
