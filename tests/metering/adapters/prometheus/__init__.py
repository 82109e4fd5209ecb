"""Tests of the Prometheus source, most of them over a real socket to a server of canned answers."""
