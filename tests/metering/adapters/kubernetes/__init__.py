"""Tests of metering/adapters/kubernetes."""
