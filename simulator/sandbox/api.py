"""The sandbox's API as a server: a simulated cluster that runs the pods people create."""

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from simulator.demo.private_files import write_private
from simulator.kubernetes_api import KubernetesAPI
from simulator.kubernetes_api.access import write_kubeconfig
from simulator.sandbox.plan import LEAD, SANDBOX, load_sandbox

SERVICE: Final = "gpu-ledger"
EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)
USERS: Final = (SERVICE, LEAD)
"""Holders of a bearer token of the cluster: our service, and the lead."""


def kubeconfig_path(folder: Path, user: str = SERVICE) -> Path:
    """Return where a user's kubeconfig of the sandbox is."""
    name = f"kubeconfig-{SANDBOX}"
    return folder / (name if user == SERVICE else f"{name}-{user}")


@contextmanager
def serve_sandbox(folder: Path, *, port: int, at: datetime) -> Iterator[KubernetesAPI]:
    """Serve the sandbox until the context ends; its objects are in this process's memory.

    Args:
        folder: Where its certificates, tokens and kubeconfigs go.
        port: On the loopback address.
        at: Now. A later start has later versions, so that a watch that resumes from an old one
            gets 410 Gone and lists again.
    """
    tokens = cluster_tokens(folder)
    api = KubernetesAPI(
        folder / f"kubernetes-{SANDBOX}",
        tokens={token: user for user, token in tokens.items()},
        port=port,
        runs_pods=True,
        first_version=int((at - EPOCH).total_seconds()),
    )
    for user, token in tokens.items():
        write_kubeconfig(
            kubeconfig_path(folder, user),
            url=api.url,
            authority_pem=api.identity.authority_pem,
            token=token,
            name=SANDBOX,
        )
    ca_path(folder).write_text(api.identity.authority_pem, encoding="utf-8")
    load_sandbox(api, at)
    with api:
        yield api


def ca_path(folder: Path) -> Path:
    """Return where the certificate authority of the sandbox's API is."""
    return folder / f"{SANDBOX}-ca.crt"


def cluster_tokens(folder: Path) -> dict[str, str]:
    """Return the cluster's bearer tokens by user, made at the first start."""
    path = folder / f"{SANDBOX}-cluster-tokens.json"
    if not path.exists():
        write_private(path, json.dumps({user: secrets.token_hex(16) for user in USERS}))
    found: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    return found
