"""Tests of texts in the language of the page."""
