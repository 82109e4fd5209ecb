"""The worker's connections: who comes is taken in turn, who says nothing is let go."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from gunicorn.config import Config  # type: ignore[import-untyped] # It has no types.
from gunicorn.glogging import Logger  # type: ignore[import-untyped] # As above.

from config import admission_protocol, admission_worker
from config.admission_protocol import CLIENT_NAME, NamingProtocol
from config.admission_worker import AdmissionWorker, Taking
from metering.adapters.simulated_cluster.kubernetes_api.tls import make_identity

REQUEST = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


async def answer(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[..., Awaitable[None]],
) -> None:
    """Answer with the client's name; at /slow only after a while, at /size with the body's."""
    if scope["path"] == "/slow":
        await asyncio.sleep(0.3)
    told = scope[CLIENT_NAME].encode() or b"nobody"
    if scope["path"] == "/size":
        size, more = 0, True
        while more:
            message = await receive()
            size, more = size + len(message.get("body", b"")), message.get("more_body", False)
        told = b"%06d" % size
    headers = [(b"content-length", b"%d" % len(told))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": told})


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def worker(loop: asyncio.AbstractEventLoop, connections: int = 100) -> AdmissionWorker:
    """Return one that was not begun by gunicorn, with what connections need of it."""
    settings = Config()
    made = AdmissionWorker.__new__(AdmissionWorker)
    needed = {
        "cfg": settings,
        "log": Logger(settings),
        "loop": loop,
        "alive": True,
        "nr_conns": 0,
        "worker_connections": connections,
        "connections": set(),
    }
    for name, value in needed.items():
        setattr(made, name, value)
    made.answer_with(answer)
    return made


async def opened(listener: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(*listener.getsockname())


async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    writer.write(REQUEST)
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    return await reader.readexactly(6)


def run(listener: socket.socket, scene: Callable[[Any], Awaitable[Any]], most: int = 100) -> Any:  # noqa: ANN401 - What the scene returns.
    """Play a scene with a process that takes connections."""

    async def played() -> Any:  # noqa: ANN401 - As above.
        loop = asyncio.get_running_loop()
        made = worker(loop, most)
        taking = Taking(loop, lambda: NamingProtocol(made), listener, None)
        try:
            async with asyncio.timeout(20):
                return await scene(made)
        finally:
            taking.close()
            await taking.wait_closed()
            for connection in list(made.connections):
                connection.transport.abort()

    return asyncio.run(played())


def test_who_shows_no_certificate_is_nobody(listener: socket.socket) -> None:
    async def scene(_: object) -> list[bytes]:
        reader, writer = await opened(listener)
        return [await answered(reader, writer), await answered(reader, writer)]

    assert run(listener, scene) == [b"nobody", b"nobody"]


def test_a_connection_on_which_nobody_asks_is_ended(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission_protocol, "SILENCE_SECONDS", 0.2)

    async def scene(_: object) -> tuple[bytes, bytes]:
        silent, half = await opened(listener), await opened(listener)
        asking = await opened(listener)
        half[1].write(REQUEST[:20])
        told = await answered(*asking)
        for reader, _ in (silent, half):
            with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
        # Who has asked is kept, as long as gunicorn keeps it.
        return told, await answered(*asking)

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
    monkeypatch.setattr(admission_protocol, "SILENCE_SECONDS", 0.2)

    async def scene(made: AdmissionWorker) -> tuple[int, int]:
        reader, writer = await opened(listener)
        await answered(reader, writer)
        writer.write(begun)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        return len(made.connections), made.nr_conns

    assert run(listener, scene) == (0, 0)


@pytest.mark.parametrize(
    "endless",
    [b"x: " + b"y" * 70_000, b"x: yyyyyyyyyy\r\n" * 5_000],
    ids=["one_header", "many_headers"],
)
def test_a_head_without_an_end_is_cut_off(listener: socket.socket, endless: bytes) -> None:
    async def scene(_: object) -> None:
        reader, writer = await opened(listener)
        await answered(reader, writer)
        writer.write(REQUEST[:-2] + endless)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)

    run(listener, scene)


@pytest.mark.parametrize("is_chunked", [False, True], ids=["whole", "chunked"])
def test_a_body_of_many_parts_is_read_to_its_end(
    listener: socket.socket,
    is_chunked: bool,  # noqa: FBT001 - A table.
) -> None:
    size = 900_000
    if is_chunked:
        told = b"Transfer-Encoding: chunked"
        body = (b"2328\r\n" + bytes(9_000) + b"\r\n") * 100 + b"0\r\n\r\n"
    else:
        told, body = b"Content-Length: %d" % size, bytes(size)
    asked = b"POST /size HTTP/1.1\r\nHost: x\r\n" + told + b"\r\n\r\n" + body

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
        told = []
        for _ in range(3):
            await reader.readuntil(b"\r\n\r\n")
            told.append(await reader.readexactly(6))
        return told

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

    told, body = run(listener, scene)

    assert told == status
    assert body == (b"nobody" if status == b"200" else b"Invali")


def test_no_more_connections_are_kept_than_there_is_room_for(listener: socket.socket) -> None:
    async def scene(_: object) -> bytes:
        first, second = await opened(listener), await opened(listener)
        await answered(*first)
        await answered(*second)
        reader, writer = await opened(listener)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await answered(reader, writer)
        return await answered(*first)

    assert run(listener, scene, most=2) == b"nobody"


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
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await late[0].readexactly(1)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await idle[0].readexactly(1)
        head = await asking[0].readuntil(b"\r\n\r\n")
        return head, await asking[0].readexactly(6)

    head, told = run(listener, scene)

    assert told == b"nobody"
    assert b"connection: close" in head.lower()


class Log:
    """Keeps what is told, and tells that something was."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []
        self.is_told = asyncio.Event()

    def warning(self, event: str, **_: object) -> None:
        self.told.append((event, "warning"))
        self.is_told.set()

    def debug(self, event: str, **_: object) -> None:
        self.told.append((event, "debug"))
        self.is_told.set()


@pytest.mark.parametrize(
    ("is_tls", "level"), [(True, "warning"), (False, "debug")], ids=["no_certificate", "a_probe"]
)
def test_a_handshake_that_fails_is_told(
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
        await asyncio.wait_for(log.is_told.wait(), 20)
        taking.close()

    log = Log()
    monkeypatch.setattr(admission_worker, "logger", log)
    asyncio.run(scene())

    assert log.told == [("admission.no_handshake", level)]
