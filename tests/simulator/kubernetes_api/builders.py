"""A simulated API server without its sockets and threads."""

from collections.abc import Callable
from datetime import datetime

from simulator.kubernetes_api.answering import Answerer, Workers
from simulator.kubernetes_api.posting import Poster
from simulator.kubernetes_api.reading import Reader
from simulator.kubernetes_api.removing import Remover
from simulator.kubernetes_api.store import ObjectStore
from simulator.kubernetes_api.users import Directory
from simulator.kubernetes_api.writing import Writer


def make_answerer(store: ObjectStore, clock: Callable[[], datetime]) -> Answerer:
    """Return what answers requests of the bearer token "good"."""
    directory = Directory({"good": "admin"})
    remover = Remover(store, clock=clock)
    workers = Workers(
        store=store,
        reader=Reader(store),
        writer=Writer(store, clock=clock),
        remover=remover,
        poster=Poster(store, remover, directory=directory, clock=clock),
        directory=directory,
    )
    return Answerer(workers, is_open=lambda: True)
