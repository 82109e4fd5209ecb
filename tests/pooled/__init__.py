"""Tests of other folders, run through a real PgBouncer, and what only a pooler brings about."""
