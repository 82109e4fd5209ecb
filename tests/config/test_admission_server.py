"""The server: connections are accepted one at a time, and answered before a process ends."""

import asyncio
import socket
import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from config import admission_server
from config.admission_server import AdmissionServer
from simulator.kubernetes_api.access import make_identity
from tests.support.config.admission_connections import (
    REQUEST,
    answered,
    ended,
    opened,
    run,
    run_on_uvloop,
    started,
)

GONE = (ConnectionResetError, asyncio.IncompleteReadError)


def test_a_burst_of_connections_is_shared_by_two_processes(listener: socket.socket) -> None:
    """Two that listen on one socket stand for them; each has its own descriptor, as they would."""

    async def scene(first: AdmissionServer) -> tuple[int, int]:
        second = await started(listener.dup())
        try:
            burst = await asyncio.gather(*[opened(listener) for _ in range(16)])
            await asyncio.gather(*[answered(*one) for one in burst])
            return len(first.server_state.connections), len(second.server_state.connections)
        finally:
            await ended(second)

    first, second = run(listener, scene)

    assert first + second == 16
    assert min(first, second) >= 4


def test_an_ending_server_closes_idle_connections_and_answers_pending_requests(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission_server, "DRAIN_SECONDS", 0.05)

    async def scene(server: AdmissionServer) -> tuple[bytes, bytes]:
        idle, asking = await opened(listener), await opened(listener)
        await answered(*idle)
        asking[1].write(REQUEST.replace(b"/healthz", b"/slow"))
        await asyncio.sleep(0.05)
        ending = asyncio.create_task(server.shutdown())
        late = await opened(listener)
        with pytest.raises(GONE):
            await late[0].readexactly(1)
        with pytest.raises(GONE):
            await idle[0].readexactly(1)
        head = await asking[0].readuntil(b"\r\n\r\n")
        body = await asking[0].readexactly(6)
        await ending
        return head, body

    head, body = run(listener, scene)

    assert body == b"nobody"
    assert b"connection: close" in head.lower()


def test_an_ending_server_accepts_waiting_connections_and_answers_their_first_requests(
    listener: socket.socket,
) -> None:
    async def scene() -> list[bytes]:
        server = await started(listener)
        waiting = [socket.create_connection(listener.getsockname()) for _ in range(5)]
        await server.acceptors[0].close()
        assert listener.fileno() == -1
        clients = [await asyncio.open_connection(sock=one) for one in waiting]
        ending = asyncio.create_task(server.shutdown())
        await asyncio.sleep(0)
        bodies = [await answered(*one) for one in clients]
        await ending
        assert server.server_state.connections == set()
        return bodies

    assert run_on_uvloop(scene()) == [b"nobody"] * 5


class Log:
    """Keeps what is reported, and shows that something was."""

    def __init__(self) -> None:
        self.reported: list[tuple[str, str]] = []
        self.is_reported = asyncio.Event()

    def warning(self, event: str, **_: object) -> None:
        self.reported.append((event, "warning"))
        self.is_reported.set()

    def debug(self, event: str, **_: object) -> None:
        self.reported.append((event, "debug"))
        self.is_reported.set()


@pytest.mark.parametrize(
    ("is_tls", "level"), [(True, "warning"), (False, "debug")], ids=["no_certificate", "a_probe"]
)
def test_a_handshake_that_fails_is_reported(
    listener: socket.socket,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_tls: bool,  # noqa: FBT001 - A table.
    level: str,
) -> None:
    identity = make_identity(tmp_path)
    required = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=identity.authority_pem)
    required.load_cert_chain(identity.certificate_path, identity.key_path)
    required.verify_mode = ssl.CERT_REQUIRED
    nobody = ssl.create_default_context(cadata=identity.authority_pem)

    async def scene() -> None:
        server = await started(listener, tls=required)
        with suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection(
                *listener.getsockname(), ssl=nobody if is_tls else None
            )
            if not is_tls:
                writer.close()
            await reader.readexactly(1)
        await asyncio.wait_for(log.is_reported.wait(), 20)
        await ended(server)

    log = Log()
    monkeypatch.setattr(admission_server, "logger", log)
    run_on_uvloop(scene())

    assert log.reported == [("admission.tls_handshake_failed", level)]


def test_a_request_after_the_signal_is_answered_with_the_end_of_the_connection(
    listener: socket.socket,
) -> None:
    async def scene(server: AdmissionServer) -> bytes:
        reader, writer = await opened(listener)
        await answered(reader, writer)
        ending = asyncio.create_task(server.shutdown())
        await asyncio.sleep(0)
        writer.write(REQUEST)
        response = await reader.read()
        await ending
        return response

    response = run(listener, scene)

    assert response.startswith(b"HTTP/1.1 200")
    assert response.count(b"connection: close") == 1
    assert response.endswith(b"nobody")


def test_a_new_connection_may_send_its_first_request(listener: socket.socket) -> None:
    async def scene(server: AdmissionServer) -> bytes:
        new = await opened(listener)
        old = await opened(listener)
        await answered(*old)
        for connection in list(server.server_state.connections):
            connection.shutdown()
        with pytest.raises(GONE):
            await old[0].readexactly(1)
        return await answered(*new)

    assert run(listener, scene) == b"nobody"


def test_a_handshake_ends_before_the_server_does(
    listener: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission_server, "DRAIN_SECONDS", 0.05)
    identity = make_identity(tmp_path)
    ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ours.load_cert_chain(identity.certificate_path, identity.key_path)
    theirs = ssl.create_default_context(cadata=identity.authority_pem)

    async def scene() -> tuple[bool, bytes]:
        server = await started(listener, tls=ours)
        raw = socket.create_connection(listener.getsockname())
        await asyncio.sleep(0.1)
        ending = asyncio.create_task(server.shutdown())
        await asyncio.sleep(0.3)
        is_early = ending.done()
        connected = await asyncio.open_connection(sock=raw, ssl=theirs, server_hostname="127.0.0.1")
        body = await answered(*connected)
        await ending
        return is_early, body

    assert run_on_uvloop(scene()) == (False, b"nobody")
