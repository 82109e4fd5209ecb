"""The worker: who comes is taken in turn, and who waits is answered before it ends."""

import asyncio
import socket
import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from config import admission_worker
from config.admission_protocol import NamingProtocol
from config.admission_worker import AdmissionWorker, Taking
from simulator.kubernetes_api.access import make_identity
from tests.support.config.admission_connections import REQUEST, answered, opened, run, worker

GONE = (ConnectionResetError, asyncio.IncompleteReadError)


def test_a_burst_of_connections_is_shared_by_two_processes(listener: socket.socket) -> None:
    """Two that listen on one socket stand for them; each has its own descriptor, as they would."""

    async def scene(first: AdmissionWorker) -> tuple[int, int]:
        loop = asyncio.get_running_loop()
        second = worker(loop)
        taking = Taking(loop, lambda: NamingProtocol(second), listener.dup(), None)
        try:
            burst = await asyncio.gather(*[opened(listener) for _ in range(16)])
            await asyncio.gather(*[answered(*one) for one in burst])
            return len(first.connections), len(second.connections)
        finally:
            taking.close()

    first, second = run(listener, scene)

    assert first + second == 16
    assert min(first, second) >= 4


def test_a_worker_that_ends_lets_go_of_who_asks_nothing_and_answers_who_waits(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission_worker, "LEAVE_SECONDS", 0.05)
    monkeypatch.setattr(admission_worker, "LOOK_SECONDS", 0.05)

    async def scene(made: AdmissionWorker) -> tuple[bytes, bytes]:
        idle, asking = await opened(listener), await opened(listener)
        await answered(*idle)
        asking[1].write(REQUEST.replace(b"/healthz", b"/slow"))
        await asyncio.sleep(0.05)
        made.handle_exit_signal()
        late = await opened(listener)
        with pytest.raises(GONE):
            await late[0].readexactly(1)
        with pytest.raises(GONE):
            await idle[0].readexactly(1)
        head = await asking[0].readuntil(b"\r\n\r\n")
        return head, await asking[0].readexactly(6)

    head, reported = run(listener, scene)

    assert reported == b"nobody"
    assert b"connection: close" in head.lower()


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
        loop = asyncio.get_running_loop()
        taking = Taking(loop, lambda: NamingProtocol(worker(loop)), listener, required)
        with suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection(
                *listener.getsockname(), ssl=nobody if is_tls else None
            )
            if not is_tls:
                writer.close()
            await reader.readexactly(1)
        await asyncio.wait_for(log.is_reported.wait(), 20)
        taking.close()

    log = Log()
    monkeypatch.setattr(admission_worker, "logger", log)
    asyncio.run(scene())

    assert log.reported == [("admission.tls_handshake_failed", level)]


def test_who_asks_after_the_signal_is_reported_that_the_connection_is_over(
    listener: socket.socket,
) -> None:
    async def scene(made: AdmissionWorker) -> bytes:
        reader, writer = await opened(listener)
        await answered(reader, writer)
        made.handle_exit_signal()
        writer.write(REQUEST)
        return await reader.read()

    reported = run(listener, scene)

    assert reported.startswith(b"HTTP/1.1 200")
    assert b"connection: close" in reported
    assert reported.endswith(b"nobody")


def test_who_waits_to_be_taken_is_taken_before_the_socket_is_closed(
    listener: socket.socket,
) -> None:
    async def scene() -> list[bytes]:
        loop = asyncio.get_running_loop()
        made = worker(loop)
        taking = Taking(loop, lambda: NamingProtocol(made), listener, None)
        waiting = [socket.create_connection(listener.getsockname()) for _ in range(5)]
        taking.close()
        await taking.wait_closed()
        assert listener.fileno() == -1
        clients = [await asyncio.open_connection(sock=one) for one in waiting]
        reported = [await answered(*one) for one in clients]
        for connection in list(made.connections):
            connection.close_if_idle(new_for_seconds=0)
        for _, writer in clients:
            writer.transport.abort()
        await asyncio.sleep(0)
        return reported

    assert asyncio.run(scene()) == [b"nobody"] * 5


def test_a_new_connection_may_ask_its_first_question(listener: socket.socket) -> None:
    async def scene(made: AdmissionWorker) -> bytes:
        new = await opened(listener)
        old = await opened(listener)
        await answered(*old)
        for connection in list(made.connections):
            connection.close_if_idle(new_for_seconds=5)
        with pytest.raises(GONE):
            await old[0].readexactly(1)
        return await answered(*new)

    assert run(listener, scene) == b"nobody"


def test_who_shakes_hands_is_waited_for(listener: socket.socket, tmp_path: Path) -> None:
    identity = make_identity(tmp_path)
    ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ours.load_cert_chain(identity.certificate_path, identity.key_path)
    theirs = ssl.create_default_context(cadata=identity.authority_pem)

    async def scene() -> tuple[bool, int, bytes]:
        loop = asyncio.get_running_loop()
        made = worker(loop)
        taking = Taking(loop, lambda: NamingProtocol(made), listener, ours)
        raw = socket.create_connection(listener.getsockname())
        await asyncio.sleep(0.1)
        taking.close()
        waiting = asyncio.create_task(taking.wait_closed())
        await asyncio.sleep(0.1)
        is_early = waiting.done()
        connected = await asyncio.open_connection(sock=raw, ssl=theirs, server_hostname="127.0.0.1")
        await waiting
        counted, reported = made.nr_conns, await answered(*connected)
        connected[1].transport.abort()
        return is_early, counted, reported

    assert asyncio.run(scene()) == (False, 1, b"nobody")
