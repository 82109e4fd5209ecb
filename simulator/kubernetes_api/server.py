"""The server: HTTPS on 127.0.0.1, bearer tokens, and one thread per connection."""

import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from simulator.cluster.exporters.object_series import QuotaSight
from simulator.cluster.scenario import SimulatedCluster
from simulator.kubernetes_api.answering import Answerer, Workers
from simulator.kubernetes_api.budgets import BudgetController
from simulator.kubernetes_api.conditions import Compile
from simulator.kubernetes_api.controllers import ControllerThread
from simulator.kubernetes_api.handler import APIServer
from simulator.kubernetes_api.jobs import JobController
from simulator.kubernetes_api.kubeconfig import write_kubeconfig
from simulator.kubernetes_api.loading import load_cluster, quota_sights
from simulator.kubernetes_api.node_agents import NodeAgents
from simulator.kubernetes_api.orders import Orders
from simulator.kubernetes_api.posting import Poster
from simulator.kubernetes_api.queues import QueueController
from simulator.kubernetes_api.quota import (
    DELAY_SECONDS,
    QuotaController,
)
from simulator.kubernetes_api.reading import BOOKMARK_SECONDS, Reader
from simulator.kubernetes_api.removing import (
    NamespaceController,
    Remover,
)
from simulator.kubernetes_api.store import ObjectStore
from simulator.kubernetes_api.tls import HOST, make_identity
from simulator.kubernetes_api.users import Directory
from simulator.kubernetes_api.writing import Writer

FIRST_VERSION: Final = 1000
"""Where its history begins: no real server knows what happened at version 1."""
_POLL_SECONDS: Final = 0.05
"""How soon a stop is noticed."""


def wall_clock() -> datetime:
    """Return the present moment."""
    return datetime.now(UTC)


class KubernetesAPI:
    """One cluster's API server; use it as a context.

    Args:
        folder: Where its certificate and key go.
        tokens: Bearer token to the user it stands for.
        port: The port to listen on; 0 for a free one.
        clock: Returns the present moment, aware UTC.
        delay_seconds: Least and most between a write and the quota status that follows.
        bookmark_seconds: Between two bookmarks of a watch.
        runs_pods: Whether pods are bound, run and end by themselves.
        first_version: Where its history begins; one that is started again begins later than it
            ended, so that nobody takes an old version, or the uid of an old object, for a new one.
        compile_condition: Makes programs of CEL expressions; None refuses match conditions.

    Attributes:
        orders: Faults on order, for tests.
    """

    def __init__(  # noqa: PLR0913 - What a server is made of; all but one are keyword only.
        self,
        folder: Path,
        *,
        tokens: Mapping[str, str],
        port: int = 0,
        clock: Callable[[], datetime] = wall_clock,
        delay_seconds: tuple[float, float] = DELAY_SECONDS,
        bookmark_seconds: float = BOOKMARK_SECONDS,
        runs_pods: bool = False,
        first_version: int = FIRST_VERSION,
        compile_condition: Compile | None = None,
    ) -> None:
        """Make the certificate and bind the port; nothing is answered before `start`."""
        self.store = ObjectStore(version=first_version)
        self.store.compile_condition = compile_condition
        self.identity = make_identity(folder)
        self.store.client_certificate = (
            self.identity.client_certificate_path,
            self.identity.client_key_path,
        )
        self.orders = Orders()
        self._tokens = dict(tokens)
        self.reader = Reader(self.store, bookmark_seconds=bookmark_seconds)
        self.writer = Writer(self.store, clock=clock, seed=first_version)
        remover = Remover(self.store, clock=clock)
        self._quotas = QuotaController(self.store, clock=clock, delay_seconds=delay_seconds)
        self._namespaces = NamespaceController(self.store, remover)
        jobs = JobController(self.store, self.writer, remover, clock=clock)
        budgets = BudgetController(self.store)
        queues = QueueController(self.store, clock=clock)
        agents = [NodeAgents(self.store, clock=clock).reconcile] if runs_pods else []
        self._controllers = ControllerThread(
            self.store,
            "controllers",
            [jobs.reconcile, *agents, budgets.reconcile, queues.reconcile],
            delay_seconds=delay_seconds,
        )
        self._is_stopping = threading.Event()
        directory = Directory(self._tokens)
        poster = Poster(self.store, remover, directory=directory, clock=clock)
        workers = Workers(self.store, self.reader, self.writer, remover, poster, directory)
        answerer = Answerer(workers, is_open=lambda: not self._is_stopping.is_set())
        self._server = APIServer((HOST, port), answerer, self.orders)
        # The handshake happens in the connection's own thread: a silent client blocks nobody.
        self._server.socket = self.identity.server_context().wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Start answering."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop answering."""
        self.stop()

    @property
    def url(self) -> str:
        """Return the base URL."""
        return f"https://{HOST}:{self._server.server_address[1]}"

    def start(self) -> None:
        """Start answering, and the controllers behind it."""
        self._quotas.start()
        self._namespaces.start()
        self._controllers.start()
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            args=(_POLL_SECONDS,),
            name="kubernetes-api",
            daemon=True,
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop answering and give the port back; watches end."""
        self._is_stopping.set()
        self.orders.clear()
        self._controllers.stop()
        self._namespaces.stop()
        self._quotas.stop()
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._thread = None
        self._server.server_close()

    def kubeconfig(self, path: Path, *, name: str = "simulated") -> Path:
        """Write a kubeconfig with the first token and return its path.

        Args:
            path: Where it goes.
            name: Of its context.
        """
        return write_kubeconfig(
            path,
            url=self.url,
            authority_pem=self.identity.authority_pem,
            token=next(iter(self._tokens)),
            name=name,
        )

    def load(self, cluster: SimulatedCluster, at: datetime) -> None:
        """Make the objects equal to a simulated cluster at a moment; quotas stay as they are."""
        load_cluster(self.store, cluster, at)

    def settle(self) -> None:
        """Run every controller once now, for those who do not want to wait."""
        self._controllers.settle()
        self._quotas.reconcile()

    def quota_sights(self) -> tuple[QuotaSight, ...]:
        """Return the quotas as kube-state-metrics would show them."""
        return quota_sights(self.store)
