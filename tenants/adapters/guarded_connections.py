"""Connections to servers of clusters: never to addresses that only a mistake or an attacker names.

Prometheus and the Kubernetes API are mostly at private addresses, so those are allowed here. The
peer's address is read after the connection is made and before anything is sent: a name that
resolves to something else the second time gains nothing.
"""

import socket
from collections.abc import Sequence
from ipaddress import ip_network
from typing import Final

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection

from tenants.adapters.guarded_addresses import Network, is_in, read_address, serves_credentials
from tenants.domain.errors import SourceUnavailableError

ALWAYS_FORBIDDEN: Final = (
    "0.0.0.0/8",
    "169.254.0.0/16",  # Link-local, and the metadata services of clouds.
    "224.0.0.0/4",
    "255.255.255.255/32",
    "::/128",
    "fe80::/10",
    "ff00::/8",
)
"""Beside the addresses at which clouds serve credentials, which no setting allows."""


def forbidden_networks(further: Sequence[str] = ()) -> tuple[Network, ...]:
    """Return what no connection may reach, with what the operator adds.

    Raises:
        ValueError: Something added is no network.
    """
    return tuple(ip_network(text) for text in (*ALWAYS_FORBIDDEN, *further))


def check_peer(connected: socket.socket, networks: Sequence[Network]) -> None:
    """Close the connection when its other end lies in a forbidden network.

    Raises:
        SourceUnavailableError: `forbidden_address`.
    """
    peer = read_address(connected.getpeername()[0])
    if is_in(peer, networks) or serves_credentials(peer):
        connected.close()
        raise SourceUnavailableError(
            "The address of this server lies in a forbidden network. Use the server's own address.",
            reason="forbidden_address",
        )


def guard_connections(pools: PoolManager, networks: Sequence[Network]) -> None:
    """Let a pool manager make guarded connections only."""

    class Plain(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            connected = super()._new_conn()
            check_peer(connected, networks)
            return connected

    class Secure(HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            connected = super()._new_conn()
            check_peer(connected, networks)
            return connected

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = Secure

    pools.pool_classes_by_scheme = {"http": PlainPool, "https": SecurePool}
