"""What the server under test says of itself; tests about what it lacks are left out."""

import os
import re
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from tests.support.kubernetes.wire import Wire

WEBHOOKS = "webhooks that reach this machine (set CONTRACT_WEBHOOK_HOST)"
RESTARTS = "a restart of the API server (set CONTRACT_RESTART)"


@dataclass(frozen=True)
class Server:
    """One API server.

    Attributes:
        minor: 20 for Kubernetes 1.20.
        group_versions: "v1", "policy/v1" and so on, and the resources of v1, as in "pods/status".
        webhook_host: Where it reaches this machine; "" when that is not known.
        may_restart: Whether the suite can start it again.
    """

    minor: int
    group_versions: frozenset[str]
    webhook_host: str
    may_restart: bool = False

    def has(self, what: str) -> bool:
        """Whether it has a group version, is of a version such as 1.24, reaches us, or restarts."""
        if what in {WEBHOOKS, RESTARTS}:
            return bool(self.webhook_host) if what == WEBHOOKS else self.may_restart
        if re.fullmatch(r"1\.\d+", what):
            return self.minor >= int(what.partition(".")[2])
        return what in self.group_versions

    @property
    def policy(self) -> str:
        """Return the newest version of the policy group."""
        return "policy/v1" if self.has("policy/v1") else "policy/v1beta1"


def discover(wire: Wire) -> Server:
    """Ask a server what it is."""
    version = wire.get("/version").body
    groups = wire.get("/apis").body["groups"]
    core = wire.get("/api/v1").body["resources"]
    served = {one["groupVersion"] for group in groups for one in group["versions"]}
    return Server(
        minor=int(re.sub(r"\D", "", version["minor"])),
        group_versions=frozenset({"v1", *served, *(one["name"] for one in core)}),
        webhook_host=os.environ.get("CONTRACT_WEBHOOK_HOST", "") or _loopback(wire.url),
        may_restart=bool(os.environ.get("CONTRACT_RESTART")) or not is_real(),
    )


def is_real() -> bool:
    """Whether a server is given, and not simulated."""
    return bool(os.environ.get("CONTRACT_KUBECONFIG"))


def _loopback(url: str) -> str:
    host = urlsplit(url).hostname or ""
    is_address = re.fullmatch(r"[0-9.]+|[0-9a-f:]+", host) is not None
    is_here = host == "localhost" or (is_address and ip_address(host).is_loopback)
    return "127.0.0.1" if is_here else ""
