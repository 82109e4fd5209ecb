"""Connections to addresses that others chose: made to checked addresses only, within a time."""

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from tenants.adapters.guarded import GuardedPoster
from tenants.domain.errors import SourceUnavailableError


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield server


def reason_of(guard: GuardedPoster, host: str, port: int) -> str:
    with pytest.raises(SourceUnavailableError) as refusal:
        guard.dial(host, port)
    return refusal.value.reason


def test_an_allowed_address_is_connected_and_its_reads_time_out(listener: socket.socket) -> None:
    guard = GuardedPoster(allowed_networks=("127.0.0.1/32",), timeout_seconds=3)

    with closing(guard.dial("127.0.0.1", listener.getsockname()[1])) as connected:
        assert connected.getpeername() == listener.getsockname()
        assert connected.gettimeout() == 3


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "169.254.169.254", "10.0.0.1"])
def test_an_address_that_is_not_public_is_refused_before_it_is_connected(
    listener: socket.socket, host: str
) -> None:
    port = listener.getsockname()[1]
    listener.settimeout(0)

    assert reason_of(GuardedPoster(), host, port) == "address_forbidden"
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_a_port_where_nothing_listens_is_unreachable() -> None:
    guard = GuardedPoster(allowed_networks=("127.0.0.0/8",))

    assert reason_of(guard, "127.0.0.1", 1) == "unreachable"


@pytest.mark.parametrize("host", ["", "a" * 300])
def test_a_name_that_is_none_is_unreachable(host: str) -> None:
    guard = GuardedPoster(allowed_networks=("127.0.0.0/8",))

    with pytest.raises(SourceUnavailableError) as refusal:
        guard.dial(host, 1)

    assert refusal.value.reason in {"unreachable", "address_forbidden"}
