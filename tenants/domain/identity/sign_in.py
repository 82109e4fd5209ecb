"""What a person signs in with or from: API tokens, networks, and cookies of known browsers.

An IPv4 address stands for itself: a subscriber, or an office behind one gateway. Of IPv6 the /64
counts, which is the smallest range a subscriber gets and can take any address of (RFC 6177).
"""

import hashlib
import hmac
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
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


PROOF_LENGTH: Final = 16


@dataclass(frozen=True)
class Device:
    """A browser with a signed cookie of an account's earlier sign-in."""

    user_id: int
    number: str
    proof: str
    """Of the password that was good there: a cookie from before the last change says nothing."""


NO_DEVICE: Final = Device(user_id=0, number="", proof="")


def proof_of(password_hash: str) -> str:
    """Return the cookie's proof of an account's present password: a digest of its hash."""
    return hashlib.sha256(password_hash.encode()).hexdigest()[:PROOF_LENGTH]


PREFIX_LENGTH: Final = 12
SECRET_LENGTH: Final = 64
LIFETIME_MAX: Final = timedelta(days=365)
_TEXT = re.compile(rf"^gl_([0-9a-f]{{{PREFIX_LENGTH}}})_([0-9a-f]{{{SECRET_LENGTH}}})$")


@dataclass(frozen=True)
class TokenText:
    """The two parts of a token's text: one finds the row, the other proves the holder."""

    prefix: str
    secret: str

    def __str__(self) -> str:
        """Return the text a client sends."""
        return f"gl_{self.prefix}_{self.secret}"

    def __repr__(self) -> str:
        """Return a representation for logs and tracebacks: never the secret."""
        return f"TokenText(prefix={self.prefix!r})"


def parse_token(text: str) -> TokenText | None:
    """Return the parts of a token's text, or None when it has not its form."""
    found = _TEXT.fullmatch(text)
    return TokenText(found[1], found[2]) if found else None


def token_digest(secret: str, *, pepper: str) -> bytes:
    """Return HMAC-SHA256 of a secret under the pepper, 32 bytes.

    The secret has 256 random bits, so a slow password hash would add nothing. Source: RFC 2104.
    """
    return hmac.new(pepper.encode(), secret.encode(), hashlib.sha256).digest()


def is_same_digest(one: bytes, other: bytes) -> bool:
    """Whether two digests are equal, compared in constant time."""
    return hmac.compare_digest(one, other)
