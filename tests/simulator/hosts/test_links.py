"""Links between hosts: what a cut link does to connections, and what mending it does."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from simulator.hosts.links import LinkCut
from simulator.hosts.networks import LoopbackNetwork

pytestmark = pytest.mark.enable_socket
SILENT_SECONDS = 0.3
ANSWER_SECONDS = 10


@pytest.fixture
def network() -> LoopbackNetwork:
    return LoopbackNetwork()


@pytest.fixture
def place(network: LoopbackNetwork) -> Iterator[tuple[str, int]]:
    """Give the address at which host `a` reaches a server on host `b` that echoes."""
    network.add("a")
    with socket.create_server((network.add("b"), 0)) as server:
        threading.Thread(target=echo, args=(server,), daemon=True).start()
        port = server.getsockname()[1]
        yield network.join("a", "b", port), port


def echo(server: socket.socket) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=echo_one, args=(connection,), daemon=True).start()


def echo_one(connection: socket.socket) -> None:
    with connection, contextlib.suppress(ConnectionError):
        while data := connection.recv(100):
            connection.sendall(data)


def connect(place: tuple[str, int]) -> socket.socket:
    return socket.create_connection(place, timeout=ANSWER_SECONDS)


def ask(connection: socket.socket, text: bytes) -> bytes:
    connection.sendall(text)
    return connection.recv(100)


def test_a_link_passes_what_both_ends_send(place: tuple[str, int]) -> None:
    with connect(place) as connection:
        assert ask(connection, b"one") == b"one"
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(100) == b""


def test_a_silent_link_answers_nothing_and_delivers_when_it_is_mended(
    network: LoopbackNetwork, place: tuple[str, int]
) -> None:
    with connect(place) as known:
        assert ask(known, b"one") == b"one"
        network.cut("a", "b", LinkCut.SILENT)

        with connect(place) as new:
            for connection in (known, new):
                connection.settimeout(SILENT_SECONDS)
                with pytest.raises(TimeoutError):
                    ask(connection, b"two")
                connection.settimeout(ANSWER_SECONDS)

            network.mend("a", "b")
            assert (known.recv(100), new.recv(100)) == (b"two", b"two")


def test_a_link_that_refuses_resets_connections_until_it_is_mended(
    network: LoopbackNetwork, place: tuple[str, int]
) -> None:
    with connect(place) as known:
        assert ask(known, b"one") == b"one"
        network.cut("a", "b", LinkCut.REFUSED)

        with pytest.raises(ConnectionResetError):
            known.recv(100)
        with pytest.raises(ConnectionRefusedError):
            connect(place)

    network.mend("a", "b")
    with connect(place) as connection:
        assert ask(connection, b"two") == b"two"


def test_a_host_that_returns_knows_no_connection_of_before(
    network: LoopbackNetwork, place: tuple[str, int]
) -> None:
    with connect(place) as known:
        assert ask(known, b"one") == b"one"
        network.power_off("b")
        known.settimeout(SILENT_SECONDS)
        with pytest.raises(TimeoutError):
            ask(known, b"two")
        known.settimeout(ANSWER_SECONDS)

        network.power_on("b")

        with pytest.raises(ConnectionResetError):
            known.recv(100)
    with connect(place) as connection:
        assert ask(connection, b"three") == b"three"
