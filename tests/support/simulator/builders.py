"""A fake API server without its sockets and threads."""

from collections.abc import Callable
from datetime import datetime

from simulator.kubernetes_api.access import Tokens
from simulator.kubernetes_api.reading import Reader
from simulator.kubernetes_api.requests import Responder
from simulator.kubernetes_api.store import ObjectStore


def make_responder(clock: Callable[[], datetime]) -> Responder:
    """Return what answers requests of the bearer token "good"."""
    store = ObjectStore(clock=clock)
    return Responder(store, Reader(store), Tokens({"good": "admin"}), is_open=lambda: True)
