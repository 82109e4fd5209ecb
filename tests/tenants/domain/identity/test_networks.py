"""Tests of the network a request comes from."""

from ipaddress import ip_network

import pytest

from tenants.domain.identity.sign_in import UNKNOWN, client_network

PROXIES = [ip_network("10.0.0.0/24"), ip_network("fd00::/64")]


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "network"),
    [
        ("192.0.2.7", "", "192.0.2.7/32"),
        ("192.0.2.7", "198.51.100.1", "192.0.2.7/32"),
        ("10.0.0.5", "198.51.100.1", "198.51.100.1/32"),
        ("10.0.0.5", "203.0.113.9, 198.51.100.1, 10.0.0.6", "198.51.100.1/32"),
        ("10.0.0.5", "198.51.100.1, nonsense", "10.0.0.5/32"),
        ("10.0.0.5", "nonsense, 10.0.0.6", "10.0.0.6/32"),
        ("10.0.0.5", "", "10.0.0.5/32"),
        ("fd00::1", "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", "", "192.0.2.7/32"),
        ("::ffff:10.0.0.5", "::ffff:198.51.100.1", "198.51.100.1/32"),
        ("fe80::1%eth0", "", "fe80::/64"),
        ("10.0.0.5", "203.0.113.5:5123", "203.0.113.5/32"),
        ("10.0.0.5", "203.0.113.5:5123, 10.0.0.6:443", "203.0.113.5/32"),
        ("10.0.0.5", "[2001:db8::1]:443", "2001:db8::/64"),
        ("10.0.0.5", "[2001:db8::1]", "2001:db8::/64"),
        ("10.0.0.5", "203.0.113.5:5123:1", "10.0.0.5/32"),
        ("10.0.0.5", "64:ff9b::198.51.100.1", "198.51.100.1/32"),
        ("10.0.0.5", "64:ff9b::198.51.100.2", "198.51.100.2/32"),
        ("", "198.51.100.1", UNKNOWN),
    ],
)
def test_only_a_trusted_proxy_says_where_a_request_comes_from(
    peer: str, forwarded_for: str, network: str
) -> None:
    environ = {"REMOTE_ADDR": peer, "HTTP_X_FORWARDED_FOR": forwarded_for}

    assert client_network(environ, trusted=PROXIES) == network
