"""Connections of the admission server without gunicorn: an application, a worker, and clients."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from gunicorn.config import Config  # type: ignore[import-untyped] # It has no types.
from gunicorn.glogging import Logger  # type: ignore[import-untyped] # As above.

from config.admission_protocol import CLIENT_NAME, NamingProtocol
from config.admission_worker import AdmissionWorker, Taking

REQUEST = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE = 8_000_000
"""Bytes of the answer at /large."""
_CLIENTS: list[asyncio.StreamWriter] = []


async def answer(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[..., Awaitable[None]],
) -> None:
    """Answer with the client's name; at /slow only after a while, at /size with the body's."""
    if scope["path"] == "/slow":
        await asyncio.sleep(0.3)
    reported = scope[CLIENT_NAME].encode() or b"nobody"
    if scope["path"] == "/large":
        reported = bytes(LARGE)
    if scope["path"] == "/smuggled":
        reported = b"stolen"
    if scope["path"] == "/size":
        size, more = 0, True
        while more:
            message = await receive()
            size, more = size + len(message.get("body", b"")), message.get("more_body", False)
        reported = b"%06d" % size
    headers = [(b"content-length", b"%d" % len(reported))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": reported})


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
    """Return a new connection, which ends with the scene."""
    connection = await asyncio.open_connection(*listener.getsockname())
    _CLIENTS.append(connection[1])
    return connection


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
            while _CLIENTS:
                _CLIENTS.pop().transport.abort()
            # What was aborted is reported so in the next round.
            await asyncio.sleep(0)

    return asyncio.run(played())
