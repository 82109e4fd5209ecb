"""What a test of a real Prometheus needs, as the tests of the servers have it."""

from tests.embedded.conftest import programs, state

__all__ = ["programs", "state"]
