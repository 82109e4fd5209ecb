"""Tests that hold the files of a deployment against the settings."""
