"""Reads of exceptions, decisions and corrections."""
