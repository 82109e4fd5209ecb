"""Webhooks registered for one namespace alone, and known to the server before a test begins."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.contract.kubernetes.conftest import LABELS, new_name, pod_body, wait_for
from tests.support.kubernetes.server import Server
from tests.support.kubernetes.webhook_server import WebhookServer
from tests.support.kubernetes.wire import Reply, Wire

Body = dict[str, Any]
GROUP = "/apis/admissionregistration.k8s.io/v1"
HOOK = "gpus.contract.gpu-ledger.io"
OWN = "gpu-ledger.io/contract-namespace"
VALIDATING = "validating"
MUTATING = "mutating"
POD_RULE = {
    "operations": ["CREATE"],
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["pods"],
}


@dataclass(frozen=True)
class Hooks:
    """Registers webhooks for one namespace, which carries a label of its own."""

    wire: Wire
    namespace: str
    server: WebhookServer
    made: list[str] = field(default_factory=list)

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def webhook(self, **changes: object) -> Body:
        """Return a webhook for new pods of the namespace, with some of it changed."""
        return {
            "name": HOOK,
            "clientConfig": {"url": self.server.url, "caBundle": self.server.authority},
            "rules": [POD_RULE],
            "namespaceSelector": {"matchLabels": {OWN: self.namespace}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 5,
            **changes,
        }

    def register(self, webhook: Body, kind: str = VALIDATING, prefix: str = "") -> Reply:
        """Create a configuration with one webhook; the begin of its name decides the order."""
        name = f"{prefix}{new_name()}"
        body = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{kind.capitalize()}WebhookConfiguration",
            "metadata": {"name": name, "labels": LABELS},
            "webhooks": [webhook],
        }
        reply = self.wire.post(f"{GROUP}/{kind}webhookconfigurations", body)
        if reply.code == 201:
            self.made.append(f"{GROUP}/{kind}webhookconfigurations/{name}")
        return reply

    def start(self, kind: str = VALIDATING, prefix: str = "", **changes: object) -> None:
        """Register a webhook, and wait until the server asks it about new pods."""
        known = len(self.server.seen)
        assert self.register(self.webhook(**changes), kind, prefix).code == 201
        wait_for(lambda: self.probe().code < 300 and len(self.server.seen) > known)
        self.server.seen.clear()

    def probe(self, **labels: str) -> Reply:
        """Ask for a pod in a dry run."""
        body = pod_body("probe")
        body["metadata"]["labels"] = labels
        return self.wire.post(self.pods, body, dryRun="All")

    def remove(self) -> None:
        for path in self.made:
            self.wire.delete(path)


@contextmanager
def hooked(
    wire: Wire, namespace: str, server: Server, factory: pytest.TempPathFactory
) -> Iterator[Hooks]:
    """Answer for one namespace, which gets its label; nothing of it is left afterwards."""
    answering = WebhookServer(factory.mktemp("webhook"), server.webhook_host)
    wire.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {OWN: namespace}}})
    made = Hooks(wire, namespace, answering)
    try:
        yield made
    finally:
        made.remove()
        answering.stop()
