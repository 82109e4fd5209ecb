"""Commands of `manage.py`, one a file."""
