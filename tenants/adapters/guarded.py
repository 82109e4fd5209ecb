"""Calls to addresses that others chose: never to private networks or metadata services.

The host is resolved once, every address it has is checked, and the connection is made to a checked
address: a name that changes its mind between check and use gains nothing. No redirect is followed,
no proxy is asked, and of the answer only the status is read, all within one deadline.
Source: OWASP Server-Side Request Forgery Prevention; RFC 6890 for the ranges.
"""

import ipaddress
import socket
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from ipaddress import ip_network
from threading import Thread
from typing import Final
from urllib.parse import SplitResult, urlsplit

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection

from tenants.domain.errors import SourceUnavailableError

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_UNICAST: Final = ipaddress.ip_network("2000::/3")
"""All that is handed out; forms that carry an IPv4 address for a gateway are outside or below."""
_SPECIAL: Final = tuple(
    map(
        ipaddress.ip_network,
        (
            "192.0.0.0/24",  # Protocols of the IETF.
            "192.88.99.0/24",  # Relays of 6to4.
            "2001::/23",  # Protocols of the IETF, Teredo among them.
            "2001:db8::/32",  # Documentation.
            "2002::/16",  # 6to4.
            "3fff::/20",  # Documentation.
        ),
    )
)
"""Special ranges that not every Python knows. Source: IANA's two special-purpose registries."""
_OF_CLOUD_HOSTS: Final = frozenset(
    map(
        ipaddress.ip_address,
        (
            "100.100.100.200",
            "168.63.129.16",
            "169.254.0.23",  # Tencent Cloud.
            "169.254.169.254",
            "169.254.170.2",
            "169.254.170.23",  # EKS Pod Identity.
            "169.254.42.42",  # Scaleway.
            "192.0.0.192",
            "fd00:42::42",  # Scaleway.
            "fd00:ec2::23",  # EKS Pod Identity.
            "fd00:ec2::254",
            "fd20:ce::254",
            "fe80::a9fe:a9fe",  # OpenStack.
        ),
    )
)
"""Where clouds tell a machine its credentials: reached in no case, whatever range is allowed."""
_CARRIERS: Final = tuple(
    map(
        ipaddress.IPv6Network,
        (
            "::/96",  # Compatible with IPv4, as RFC 4291 first had it.
            "::ffff:0:0:0/96",  # Translated, RFC 2765.
            "64:ff9b::/96",  # NAT64, RFC 6052.
        ),
    )
)
"""A gateway takes the last 32 bits of these for an IPv4 address."""
_OF_SITES: Final = ipaddress.IPv6Network("64:ff9b:1::/48")
"""NAT64 of a site, whose gateway has a prefix of its own length in here. Source: RFC 8215."""
_SITE_LAYOUTS: Final = (
    ((48, 64), (72, 88)),  # A prefix of 48 bits; bits 64 to 71 are never part of the address.
    ((56, 64), (72, 96)),
    ((72, 104),),  # Of 64 bits.
    ((96, 128),),
)
"""Which bits, counted from the left, are the IPv4 address. Source: RFC 6052, section 2.2."""
_THIS_NETWORK: Final = ipaddress.IPv4Network("0.0.0.0/8")
_ISATAP: Final = frozenset({0x0000_5EFE, 0x0200_5EFE})
"""How an interface id begins whose last 32 bits are an IPv4 address. Source: RFC 5214, 6.1."""


def read_address(text: str) -> Address:
    """Return an address; one that the kernel takes for an IPv4 address is that address.

    Args:
        text: With or without a zone, as in "fe80::1%eth0".
    """
    address = ipaddress.ip_address(text.split("%", 1)[0])
    if isinstance(address, ipaddress.IPv6Address):
        return address.ipv4_mapped or address
    return address


def serves_credentials(address: Address) -> bool:
    """Whether clouds answer there with a machine's credentials, directly or through a gateway."""
    return not _OF_CLOUD_HOSTS.isdisjoint({address, *_carried(address)})


def is_in(address: Address, networks: Sequence[Network]) -> bool:
    """Whether an address, or one to which a gateway may carry it, lies in one of the networks."""
    # Zeros beside a site's own layout would read as 0.0.0.0, where no gateway carries anything.
    forms = {address, *(form for form in _carried(address) if form not in _THIS_NETWORK)}
    return any(form in network for form in forms for network in networks)


def is_public(address: Address) -> bool:
    """Whether an address is one of the internet's, and is not a translation of another address."""
    if isinstance(address, ipaddress.IPv6Address) and (
        address not in _UNICAST or _is_isatap(address)
    ):
        return False
    is_special = any(address in network for network in _SPECIAL)
    return address.is_global and not address.is_multicast and not is_special


def _carried(address: Address) -> set[ipaddress.IPv4Address]:
    """Return the IPv4 addresses to which a gateway may carry what is sent to an address."""
    if isinstance(address, ipaddress.IPv4Address):
        return set()
    forms = [address.sixtofour, *(address.teredo or ())]
    if _is_isatap(address) or any(address in network for network in _CARRIERS):
        forms.append(_ipv4_in(address, ((96, 128),)))
    if address in _OF_SITES:
        forms += [_ipv4_in(address, layout) for layout in _SITE_LAYOUTS]
    return {form for form in forms if form is not None}


def _ipv4_in(
    address: ipaddress.IPv6Address, spans: Sequence[tuple[int, int]]
) -> ipaddress.IPv4Address:
    """Return the IPv4 address that spans of bits, counted from the left, make together."""
    bits = f"{int(address):0128b}"
    return ipaddress.IPv4Address(int("".join(bits[begin:end] for begin, end in spans), 2))


def _is_isatap(address: ipaddress.IPv6Address) -> bool:
    return int(address) >> 32 & 0xFFFF_FFFF in _ISATAP


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
    """Restrict a pool manager to guarded connections."""

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


STATUS_LINE_BYTES_MAX: Final = 4_096
_RECEIVE_BYTES: Final = 1_024


class GuardedPoster:
    """Posts to public addresses, and to private ones only where the operator allows their range."""

    def __init__(
        self,
        *,
        allowed_networks: Sequence[str] = (),
        clear_text_hosts: Sequence[str] = (),
        timeout_seconds: int = 5,
        authority_file: str = "",
    ) -> None:
        """Keep what is allowed.

        Args:
            allowed_networks: Ranges such as "10.1.0.0/16" that may be reached although private.
            clear_text_hosts: Hosts that may be reached over http.
            timeout_seconds: For resolving, connecting, sending and the status together.
            authority_file: Certificates to trust beside the system's; "" for none.
        """
        self.allowed: tuple[Network, ...] = tuple(map(ipaddress.ip_network, allowed_networks))
        self.clear_text_hosts = tuple(clear_text_hosts)
        self.timeout_seconds = timeout_seconds
        self.context = ssl.create_default_context()
        if authority_file:
            self.context.load_verify_locations(authority_file)

    def post(self, url: str, *, body: bytes, headers: Mapping[str, str]) -> int:
        """Return the status a receiver answers.

        Raises:
            SourceUnavailableError: It may not be reached, does not answer in time, or not in HTTP.
        """
        parts = urlsplit(url)
        deadline = time.monotonic() + self.timeout_seconds
        with self._reached(parts, deadline=deadline) as connection:
            connection.settimeout(_left(deadline))
            connection.sendall(_request(parts, body=body, headers=headers))
            return _status(connection, deadline=deadline)

    def reach(self, url: str) -> None:
        """Connect to a receiver, over TLS where it is https, and say nothing.

        Raises:
            SourceUnavailableError: It may not be reached, or does not answer in time.
        """
        with self._reached(urlsplit(url), deadline=time.monotonic() + self.timeout_seconds):
            pass

    @contextmanager
    def _reached(self, parts: SplitResult, *, deadline: float) -> Iterator[socket.socket]:
        try:
            with self._connection(parts, deadline=deadline) as connection:
                yield connection
        except TimeoutError as error:
            raise SourceUnavailableError(
                f"It did not answer within {self.timeout_seconds} s.", reason="timeout"
            ) from error
        except (OSError, UnicodeError) as error:
            raise SourceUnavailableError(
                f"It could not be reached: {type(error).__name__}.", reason="unreachable"
            ) from error

    def _connection(self, parts: SplitResult, *, deadline: float) -> socket.socket:
        host = parts.hostname or ""
        is_clear_text = parts.scheme == "http" and host in self.clear_text_hosts
        if parts.scheme != "https" and not is_clear_text:
            raise SourceUnavailableError("Only https is spoken here.", reason="not_https")
        port = parts.port or (80 if is_clear_text else 443)
        address = self.checked_address(host, port, deadline=deadline)
        plain = socket.create_connection((address, port), timeout=_left(deadline))
        if is_clear_text:
            return plain
        try:
            plain.settimeout(_left(deadline))
            return self.context.wrap_socket(plain, server_hostname=host)
        except (OSError, ValueError):
            plain.close()
            raise

    def dial(self, host: str, port: int) -> socket.socket:
        """Return a connection to a checked address of a host; its reads and writes time out.

        Raises:
            SourceUnavailableError: It may not be reached, or does not answer in time.
        """
        deadline = time.monotonic() + self.timeout_seconds
        try:
            address = self.checked_address(host, port, deadline=deadline)
            connected = socket.create_connection((address, port), timeout=_left(deadline))
        except (OSError, UnicodeError) as error:
            raise SourceUnavailableError(
                f"It could not be reached: {type(error).__name__}.", reason="unreachable"
            ) from error
        connected.settimeout(self.timeout_seconds)
        return connected

    def checked_address(self, host: str, port: int, *, deadline: float) -> str:
        """Return an address of a host; all addresses of the host must be allowed."""
        addresses = _resolve(host, port, deadline=deadline)
        for address in addresses:
            if not self.may_reach(address):
                raise SourceUnavailableError(
                    "Its host has an address that is not public.", reason="address_forbidden"
                )
        return addresses[0]

    def may_reach(self, text: str) -> bool:
        """Whether an address is public, or in a range the operator allows.

        Args:
            text: An address without a zone.
        """
        address = read_address(text)
        if serves_credentials(address):
            return False
        if any(address in network for network in self.allowed):
            return True
        return is_public(address)


def _resolve(host: str, port: int, *, deadline: float) -> list[str]:
    """Return the addresses of a host.

    The system's resolver takes no time limit, so that it is asked in a thread of its own, which is
    left to end by itself.
    """
    answer: Future[list[str]] = Future()

    def ask() -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, ValueError) as error:
            answer.set_exception(error)
        else:
            answer.set_result([str(entry[4][0]).split("%", 1)[0] for entry in found])

    Thread(target=ask, daemon=True).start()
    return answer.result(timeout=_left(deadline))


def _left(deadline: float) -> float:
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


def _request(parts: SplitResult, *, body: bytes, headers: Mapping[str, str]) -> bytes:
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = [
        f"POST {target} HTTP/1.1",
        f"Host: {parts.netloc}",
        "Connection: close",
        f"Content-Length: {len(body)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join(lines).encode("ascii") + b"\r\n\r\n" + body


def _status(connection: socket.socket, *, deadline: float) -> int:
    """Return the status of the first line of an answer; the rest is not read."""
    line = b""
    while b"\n" not in line:
        connection.settimeout(_left(deadline))
        received = connection.recv(_RECEIVE_BYTES)
        line += received
        if not received or len(line) > STATUS_LINE_BYTES_MAX:
            break
    version, _, rest = line.partition(b" ")
    code = rest[:3]
    if not version.startswith(b"HTTP/1.") or len(code) != len("200") or not code.isdigit():
        raise SourceUnavailableError("What it answers is not HTTP.", reason="bad_answer")
    return int(code)
