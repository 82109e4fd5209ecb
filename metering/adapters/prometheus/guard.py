"""Where a connection may go: never to addresses that only a mistake or an attacker would name.

The peer's address is looked at after the connection is made and before anything is sent, so a name
that resolves to something else the second time gains nothing.
"""

import socket
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any, Final

from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, Retry
from urllib3.connection import HTTPConnection, HTTPSConnection

from tenants.domain.errors import SourceUnavailableError

Network = IPv4Network | IPv6Network

ALWAYS_FORBIDDEN: Final = (
    "0.0.0.0/8",
    "169.254.0.0/16",  # Link-local, and the metadata services of clouds.
    "224.0.0.0/4",
    "255.255.255.255/32",
    "::/128",
    "fd00:ec2::254/128",
    "fe80::/10",
    "ff00::/8",
)


def forbidden_networks(further: Sequence[str]) -> tuple[Network, ...]:
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
    peer = ip_address(connected.getpeername()[0].split("%")[0])
    mapped = getattr(peer, "ipv4_mapped", None)
    if any((mapped or peer) in network for network in networks):
        connected.close()
        raise SourceUnavailableError(
            "The address of this Prometheus lies in a forbidden network.",
            reason="forbidden_address",
        )


class GuardedAdapter(HTTPAdapter):
    """requests' transport, with our retries and over guarded connections only."""

    def __init__(self, retry: Retry, networks: Sequence[Network]) -> None:
        """Remember what is forbidden, then build the pools."""
        self._networks = tuple(networks)
        super().__init__(max_retries=retry)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - As inherited.
        """Build requests' pool manager, then have it make guarded connections."""
        super().init_poolmanager(*args, **kwargs)
        networks = self._networks

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

        self.poolmanager.pool_classes_by_scheme = {"http": PlainPool, "https": SecurePool}
