"""Where connections may go; loopback stands for a network an operator forbids."""

import socket
from datetime import timedelta

import pytest

from metering.adapters.prometheus import PrometheusUsageSource
from tenants.adapters.guarded import check_peer, forbidden_networks
from tenants.domain.errors import SourceUnavailableError
from tests.support.metering.prometheus import HOUR, serving, sound_world, target_of


class Peer(socket.socket):
    """A socket that says it is connected to where it is reported."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self.address = address

    def getpeername(self) -> tuple[str, int]:
        return self.address, 9090


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "fe80::1%eth0",
        "169.254.170.2",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "168.63.129.16",
        "100.100.100.200",
        "::ffff:168.63.129.16",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b::168.63.129.16",
        "64:ff9b:1::a9fe:1",
        "64:ff9b:1:a9fe:a9:fe00::",
        "0.0.0.0",  # noqa: S104 - Refused, not bound.
        "224.0.0.1",
        "ff02::1",
        "255.255.255.255",
    ],
)
def test_addresses_that_only_a_mistake_names_are_refused(address: str) -> None:
    peer = Peer(address)

    with pytest.raises(SourceUnavailableError) as refusal:
        check_peer(peer, forbidden_networks(()))

    assert refusal.value.reason == "forbidden_address"
    assert peer.fileno() == -1


@pytest.mark.parametrize(
    "address", ["10.0.0.1", "127.0.0.1", "192.0.2.7", "2001:db8::1", "::1", "64:ff9b:1::a00:5"]
)
def test_addresses_a_cluster_may_have_are_left_alone(address: str) -> None:
    with Peer(address) as peer:
        check_peer(peer, forbidden_networks(()))

        assert peer.fileno() != -1


def test_a_connection_into_a_forbidden_network_sends_nothing() -> None:
    world = sound_world()

    with serving(world) as url, pytest.raises(SourceUnavailableError) as refusal:
        PrometheusUsageSource(forbidden=("127.0.0.0/8",)).observe(
            target_of(url),
            start_at=HOUR,
            end_at=HOUR + timedelta(hours=1),
            as_of=HOUR + timedelta(hours=2),
        )

    assert refusal.value.reason == "forbidden_address"
    assert world.asked == []


def test_a_connection_over_TLS_is_guarded_too() -> None:  # noqa: N802 - Names.
    with serving(sound_world()) as url, pytest.raises(SourceUnavailableError) as refusal:
        PrometheusUsageSource(forbidden=("127.0.0.0/8",)).observe(
            target_of(url.replace("http:", "https:")),
            start_at=HOUR,
            end_at=HOUR + timedelta(hours=1),
            as_of=HOUR + timedelta(hours=2),
        )

    assert refusal.value.reason == "forbidden_address"


def test_a_setting_that_is_no_network_stops_the_process() -> None:
    with pytest.raises(ValueError, match="nowhere"):
        PrometheusUsageSource(forbidden=("nowhere",))
