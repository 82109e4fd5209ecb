"""`manage.py simulate`: the demo's clusters as servers: a live exporter and Kubernetes APIs."""

import secrets
import signal
import threading
from argparse import ArgumentParser
from contextlib import ExitStack
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from embedded.stack import ROOT
from simulator.cluster.exporters.exporter import GrowingScenario, LiveExporter
from simulator.demo.world import CLUSTERS, World
from simulator.kubernetes_api import KubernetesAPI
from simulator.kubernetes_api.store import wall_clock
from simulator.sandbox.api import serve_sandbox
from simulator.sandbox.plan import SANDBOX

FOLDER = ROOT / "var" / "demo"
LOAD_SECONDS = 10
"""How often pods that began or ended are shown in the API."""


class Command(BaseCommand):
    """Run the demo's world until interrupted."""

    help = "Serve the demo's simulated clusters; `manage.py demo` runs it."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the ports, each as name=port; "exporter", "sandbox" and one for each cluster."""
        parser.add_argument("ports", nargs="+", help="exporter=PORT sandbox=PORT CLUSTER=PORT ...")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's own signature.
        """Serve until SIGTERM.

        Raises:
            CommandError: There is no world yet.
        """
        world = World.read(FOLDER)
        if world is None:
            raise CommandError("There is no demo world yet; run `make demo`.")
        ports = {name: int(port) for name, _, port in (p.partition("=") for p in options["ports"])}
        ended = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: ended.set())
        with ExitStack() as servers:
            apis = {slug: servers.enter_context(_api(slug, ports[slug])) for slug in CLUSTERS}
            exporter = LiveExporter(
                GrowingScenario(world.scenario),
                clock=wall_clock,
                port=ports["exporter"],
                quotas=lambda slug: apis[slug].quota_statuses(),
            )
            _load(apis, world)
            servers.enter_context(serve_sandbox(FOLDER, port=ports[SANDBOX], at=wall_clock()))
            servers.enter_context(exporter)
            (FOLDER / "simulator.ready").touch()
            while not ended.wait(LOAD_SECONDS):
                _load(apis, world)


def _api(slug: str, port: int) -> KubernetesAPI:
    api = KubernetesAPI(
        FOLDER / f"kubernetes-{slug}", tokens={secrets.token_hex(16): "gpu-ledger"}, port=port
    )
    api.kubeconfig(FOLDER / f"kubeconfig-{slug}", name=slug)
    return api


def _load(apis: dict[str, KubernetesAPI], world: World) -> None:
    """Make the objects of every cluster what they are now; quotas stay as they were set."""
    at = wall_clock()
    scenario = world.scenario(at)
    for slug, api in apis.items():
        api.load(scenario.cluster(slug), at)
