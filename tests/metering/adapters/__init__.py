"""Tests of what metering reads from outside."""
