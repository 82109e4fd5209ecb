"""Addresses: which are public, which no call may ever reach, and which stand for another one.

Source: OWASP Server-Side Request Forgery Prevention; RFC 6890 for the ranges.
"""

import ipaddress
from collections.abc import Sequence
from typing import Final

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
    """Whether an address is one of the internet's, and stands for no other address."""
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
