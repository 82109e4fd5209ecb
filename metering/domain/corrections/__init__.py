"""Exceptions, decisions and corrections of what was metered."""
