"""Tests of exports: the bundle of a month, schedules, and runs."""
