"""Connections of the admission server without gunicorn: an application, a server, and clients."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import uvloop

from config.admission_protocol import CLIENT_NAME
from config.admission_server import AdmissionServer, server_config

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


async def started(*listeners: socket.socket, tls: ssl.SSLContext | None = None) -> AdmissionServer:
    """Return a server that accepts connections."""
    config = server_config(answer, keep_alive_seconds=100, graceful_seconds=10, tls=tls)
    server = AdmissionServer(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup([*listeners])
    return server


async def ended(server: AdmissionServer) -> None:
    """Close what a scene leaves open, at once."""
    for acceptor in server.acceptors:
        await acceptor.close()
    for connection in list(server.server_state.connections):
        connection.transport.abort()
    while _CLIENTS:
        _CLIENTS.pop().transport.abort()
    # An aborted connection is reported so in the next iteration.
    await asyncio.sleep(0)


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


def run(
    listener: socket.socket,
    scene: Callable[[AdmissionServer], Awaitable[Any]],
    *others: socket.socket,
) -> Any:  # noqa: ANN401 - What the scene returns.
    """Play a scene with a server, on the event loop that it has in production."""

    async def played() -> Any:  # noqa: ANN401 - As above.
        server = await started(listener, *others)
        try:
            async with asyncio.timeout(20):
                return await scene(server)
        finally:
            await ended(server)

    return run_on_uvloop(played())


def run_on_uvloop(scene: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 - What the scene returns.
    """Play a scene on the event loop of the server."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(scene)
