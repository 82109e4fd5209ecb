"""Connections: whose they are, how long they may take, and how much may come."""

import asyncio
import gc
import socket
import time
import weakref

import pytest

from config import admission_protocol, admission_server
from config.admission_protocol import REQUEST_SECONDS_MAX
from config.admission_server import AdmissionServer
from config.management.commands.serve_admission import PROBE_PORT
from tests.support.config.admission_connections import REQUEST, answered, opened, run

GONE = (ConnectionResetError, asyncio.IncompleteReadError)


def test_who_shows_no_certificate_is_nobody(listener: socket.socket) -> None:
    async def scene(_: object) -> list[bytes]:
        reader, writer = await opened(listener)
        return [await answered(reader, writer), await answered(reader, writer)]

    assert run(listener, scene) == [b"nobody", b"nobody"]


def test_a_connection_on_which_nobody_asks_is_ended(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission_protocol, "REQUEST_SECONDS_MAX", 0.2)

    async def scene(_: object) -> tuple[bytes, bytes]:
        silent, half = await opened(listener), await opened(listener)
        asking = await opened(listener)
        half[1].write(REQUEST[:20])
        reported = await answered(*asking)
        for reader, _ in (silent, half):
            with pytest.raises(GONE):
                await reader.readexactly(1)
        # A connection that had a request is kept for longer.
        return reported, await answered(*asking)

    assert run(listener, scene) == (b"nobody", b"nobody")


@pytest.mark.parametrize(
    "begun",
    [
        REQUEST[:20],
        b"POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1234",
        b"POST /size HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n1234\r\n",
    ],
    ids=["half_a_head", "half_a_body", "chunks_without_an_end"],
)
def test_a_request_that_does_not_end_is_not_waited_for(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    monkeypatch.setattr(admission_protocol, "REQUEST_SECONDS_MAX", 0.2)

    async def scene(server: AdmissionServer) -> int:
        reader, writer = await opened(listener)
        await answered(reader, writer)
        writer.write(begun)
        with pytest.raises(GONE):
            await reader.readexactly(1)
        return len(server.server_state.connections)

    assert run(listener, scene) == 0


@pytest.mark.parametrize(
    "endless",
    [b"x: " + b"y" * 70_000, b"x: yyyyyyyyyy\r\n" * 5_000],
    ids=["one_header", "many_headers"],
)
def test_a_head_without_an_end_is_cut_off(listener: socket.socket, endless: bytes) -> None:
    async def scene(_: object) -> None:
        reader, writer = await opened(listener)
        await answered(reader, writer)
        begin = time.monotonic()
        writer.write(REQUEST[:-2] + endless)
        with pytest.raises(GONE):
            await reader.readexactly(1)
        # Not only because it takes so long.
        assert time.monotonic() - begin < REQUEST_SECONDS_MAX / 2

    run(listener, scene)


@pytest.mark.parametrize("is_chunked", [False, True], ids=["whole", "chunked"])
def test_a_body_of_many_parts_is_read_to_its_end(
    listener: socket.socket,
    is_chunked: bool,  # noqa: FBT001 - A table.
) -> None:
    size = 900_000
    if is_chunked:
        reported = b"Transfer-Encoding: chunked"
        body = (b"2328\r\n" + bytes(9_000) + b"\r\n") * 100 + b"0\r\n\r\n"
    else:
        reported, body = b"Content-Length: %d" % size, bytes(size)
    asked = b"POST /size HTTP/1.1\r\nHost: x\r\n" + reported + b"\r\n\r\n" + body

    async def scene(_: object) -> list[bytes]:
        reader, writer = await opened(listener)
        sizes = []
        for _ in range(2):
            writer.write(asked)
            await reader.readuntil(b"\r\n\r\n")
            sizes.append(await reader.readexactly(6))
        return sizes

    assert run(listener, scene) == [b"%06d" % size] * 2


def test_requests_that_do_not_wait_for_answers_are_answered_in_turn(
    listener: socket.socket,
) -> None:
    async def scene(_: object) -> list[bytes]:
        reader, writer = await opened(listener)
        writer.write(REQUEST.replace(b"/healthz", b"/slow") + REQUEST * 2)
        reported = []
        for _ in range(3):
            await reader.readuntil(b"\r\n\r\n")
            reported.append(await reader.readexactly(6))
        return reported

    assert run(listener, scene) == [b"nobody"] * 3


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (REQUEST[:-2] + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", b"200"),
        (REQUEST[:-2] + b"gpu_ledger.client_name: kube-apiserver\r\n\r\n", b"200"),
    ],
    ids=["no_http", "websocket", "says_a_name"],
)
def test_what_is_strange_is_answered_as_http(
    listener: socket.socket, asked: bytes, status: bytes
) -> None:
    async def scene(_: object) -> tuple[bytes, bytes]:
        reader, writer = await opened(listener)
        writer.write(asked)
        head = await reader.readuntil(b"\r\n\r\n")
        return head[9:12], await reader.readexactly(6)

    reported, body = run(listener, scene)

    assert reported == status
    assert body == (b"nobody" if status == b"200" else b"Invali")


def test_connections_beyond_the_limit_are_closed(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission_protocol, "CONNECTIONS_MAX", 2)

    async def scene(_: object) -> bytes:
        first, second = await opened(listener), await opened(listener)
        await answered(*first)
        await answered(*second)
        reader, writer = await opened(listener)
        with pytest.raises(GONE):
            await answered(reader, writer)
        return await answered(*first)

    assert run(listener, scene) == b"nobody"


def test_clients_without_a_certificate_leave_room_for_those_who_have_one(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission_protocol, "OPEN_CONNECTIONS_MAX", 2)
    with socket.create_server(("127.0.0.1", 0)) as probes:
        monkeypatch.setenv(PROBE_PORT, str(probes.getsockname()[1]))

        async def scene(_: object) -> bytes:
            for _ in range(2):
                await answered(*await opened(probes))
            proven = await opened(listener)
            refused = await opened(probes)
            with pytest.raises(GONE):
                await answered(*refused)
            return await answered(*proven)

        assert run(listener, scene, probes) == b"nobody"


def test_silence_counts_neither_between_requests_nor_while_somebody_waits(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission_protocol, "REQUEST_SECONDS_MAX", 0.1)

    async def scene(_: object) -> list[bytes]:
        reader, writer = await opened(listener)
        reported = [await answered(reader, writer)]
        await asyncio.sleep(0.3)
        reported.append(await answered(reader, writer))
        writer.write(REQUEST.replace(b"/healthz", b"/slow"))
        await reader.readuntil(b"\r\n\r\n")
        return [*reported, await reader.readexactly(6)]

    assert run(listener, scene) == [b"nobody"] * 3


def test_a_connection_that_was_answered_is_kept_for_a_while_and_not_for_ever(
    listener: socket.socket,
) -> None:
    async def scene(server: AdmissionServer) -> float:
        server.config.timeout_keep_alive = 1
        reader, writer = await opened(listener)
        await answered(reader, writer)
        begin = time.monotonic()
        assert await reader.read(1) == b""
        return time.monotonic() - begin

    assert 0.5 < run(listener, scene) < 5


def test_a_connection_that_broke_leaves_nothing_behind(listener: socket.socket) -> None:
    async def scene(server: AdmissionServer) -> object:
        raw = socket.create_connection(listener.getsockname())
        raw.setblocking(False)  # noqa: FBT003 - The socket's own signature.
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(raw, REQUEST)
        assert (await loop.sock_recv(raw, 10_000)).startswith(b"HTTP/1.1 200")
        (connection,) = server.server_state.connections
        kept, gone = weakref.ref(connection), asyncio.Event()
        weakref.finalize(connection, gone.set)
        del connection
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        raw.close()
        await asyncio.sleep(0.2)
        gc.collect()
        # uvicorn would keep it for the seconds that an idle connection is kept.
        assert server.config.timeout_keep_alive > 1
        await asyncio.wait_for(gone.wait(), 1)
        return kept()

    assert run(listener, scene) is None


async def _write_for_ever(listener: socket.socket, asked: bytes) -> None:
    """Ask and never read an answer, until the connection is cut."""
    loop = asyncio.get_running_loop()
    with socket.socket() as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        raw.connect(listener.getsockname())
        raw.setblocking(False)  # noqa: FBT003 - The socket's own signature.
        while True:
            await loop.sock_sendall(raw, asked)
            await asyncio.sleep(0.01)


def test_a_client_that_never_reads_is_let_go(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission_protocol, "REQUEST_SECONDS_MAX", 0.2)

    async def scene(server: AdmissionServer) -> int:
        with pytest.raises(OSError, match=r"reset|pipe"):
            await _write_for_ever(listener, REQUEST.replace(b"/healthz", b"/large"))
        return len(server.server_state.connections)

    assert run(listener, scene) == 0


def test_a_worker_that_ends_waits_for_nobody_who_never_reads(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission_server, "DRAIN_SECONDS", 0.05)

    async def scene(server: AdmissionServer) -> float:
        asking = _write_for_ever(listener, REQUEST.replace(b"/healthz", b"/large"))
        writing = asyncio.create_task(asking)
        await asyncio.sleep(0.5)
        begin = time.monotonic()
        await server.shutdown()
        with pytest.raises(OSError, match=r"reset|pipe"):
            await writing
        return time.monotonic() - begin

    assert run(listener, scene) < REQUEST_SECONDS_MAX / 2


def test_what_follows_an_upgrade_is_no_request(listener: socket.socket) -> None:
    hidden = REQUEST.replace(b"/healthz", b"/smuggled")
    head = b"POST /healthz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n"
    length = b"Content-Length: %d\r\n\r\n" % len(hidden)

    async def scene(_: object) -> list[bytes]:
        reported = []
        for parts in ((head + length + hidden,), (head + length, hidden)):
            reader, writer = await opened(listener)
            for part in parts:
                writer.write(part)
                await asyncio.sleep(0.05)
            reported.append(await reader.read())
        return reported

    for reported in run(listener, scene):
        assert reported.count(b"HTTP/1.1") == 1
        assert reported.startswith(b"HTTP/1.1 200")
        assert b"connection: close" in reported
        assert b"stolen" not in reported
