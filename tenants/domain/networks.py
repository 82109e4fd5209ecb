"""Which network a request comes from: what sign-in limits and the audit trail go by.

An IPv4 address stands for itself: a subscriber, or an office behind one gateway. Of IPv6 the /64
counts, which is the smallest range a subscriber gets and can take any address of (RFC 6177).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

UNKNOWN: Final = "unknown"
"""The network of a peer without an address, such as one on a Unix socket."""
IPV6_BITS: Final = 64
NAT64: Final = IPv6Network("64:ff9b::/96")
"""Every IPv4 address, as a translator writes it (RFC 6052); as one network it would be everyone."""
_IPV4_MAX: Final = 2**32 - 1
_BRACKETED: Final = re.compile(r"\[([^\]]*)\](?::\d+)?")


def client_network(environ: Mapping[str, object], *, trusted: Sequence[Network]) -> str:
    """Return the network of a request's client, such as "192.0.2.7/32"; or `UNKNOWN`.

    X-Forwarded-For counts only when a trusted proxy sent it, and of it the rightmost address that
    is not a trusted proxy's: everything further left was written by the client.

    Args:
        environ: The request's variables by their WSGI names.
        trusted: The networks of the operator's own proxies.
    """
    client = _address_of(str(environ.get("REMOTE_ADDR", "")))
    if client is None:
        return UNKNOWN
    for hop in _hops(str(environ.get("HTTP_X_FORWARDED_FOR", ""))):
        if hop is None or not _is_in(client, trusted):
            break
        client = hop
    bits = IPV6_BITS if client.version == 6 else client.max_prefixlen  # noqa: PLR2004 - IP's versions.
    return str(ip_network(f"{client}/{bits}", strict=False))


def _hops(forwarded_for: str) -> Iterator[Address | None]:
    """Yield the addresses of the header from the right; None for what is none."""
    for part in reversed(forwarded_for.split(",")):
        yield _address_of(part.strip())


def _address_of(text: str) -> Address | None:
    """Return an address without its zone and port; an IPv4 address within IPv6 is itself."""
    bracketed = _BRACKETED.fullmatch(text)
    host = bracketed[1] if bracketed else text
    if host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    if not isinstance(address, IPv6Address):
        return address
    if address in NAT64:
        return IPv4Address(int(address) & _IPV4_MAX)
    return address.ipv4_mapped or address


def _is_in(address: Address, networks: Sequence[Network]) -> bool:
    return any(address in network for network in networks)
