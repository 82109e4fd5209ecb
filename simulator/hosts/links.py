"""TCP links between hosts of one machine: each is a proxy that can be cut and mended."""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Coroutine
from enum import StrEnum
from typing import Any, Final, TypeVar

CHUNK_BYTES: Final = 64 * 1024
ANSWER_SECONDS_MAX: Final = 10
RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER with no time left: closing sends a reset, as a host that was restarted does."""
Result = TypeVar("Result")


class LinkCut(StrEnum):
    """How a link is cut: `silent` loses what is sent, `refused` resets and refuses connections."""

    REFUSED = "refused"
    SILENT = "silent"


class Link:
    """What one host reaches of another, at an address of its own.

    While it is silent, connections are accepted by the kernel and nothing passes: what was sent is
    delivered when it is mended, as TCP would send it again.

    Args:
        listen: Where the one host connects to.
        target: Where the other host listens.
    """

    def __init__(self, *, listen: tuple[str, int], target: tuple[str, int]) -> None:
        """Nothing listens yet."""
        self._listen = listen
        self._target = target
        self._server: asyncio.Server | None = None
        self._is_open = asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()

    async def open(self) -> None:
        """Let everything pass, from now on or again."""
        if self._server is None:
            host, port = self._listen
            self._server = await asyncio.start_server(self._serve, host, port)
        self._is_open.set()

    async def cut(self, how: LinkCut) -> None:
        """Let nothing pass any more."""
        if how is LinkCut.SILENT:
            self._is_open.clear()
            return
        if self._server is not None:
            self._server.close()
            self._server = None
        await self.reset()

    async def reset(self) -> None:
        """Reset the connections that there are."""
        for writer in list(self._writers):
            plain: socket.socket = writer.get_extra_info("socket")
            with contextlib.suppress(OSError):
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            await self._is_open.wait()
            there, back = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            self._writers.discard(writer)
            return
        self._writers.add(back)
        try:
            await asyncio.gather(self._pass(reader, back), self._pass(there, writer))
        except OSError:
            pass  # One end is gone: so is the other.
        finally:
            for one in (writer, back):
                one.transport.abort()
                self._writers.discard(one)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what arrives, until the end of it."""
        while data := await reader.read(CHUNK_BYTES):
            await self._is_open.wait()
            writer.write(data)
            await writer.drain()
        await self._is_open.wait()
        if writer.can_write_eof():
            writer.write_eof()


class LinkLoop:
    """The thread in which all links pass their data."""

    def __init__(self) -> None:
        """Start it; it ends with the process."""
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="links", daemon=True).start()

    def run(self, step: Coroutine[Any, Any, Result]) -> Result:
        """Do something in it, and wait for its end."""
        return asyncio.run_coroutine_threadsafe(step, self._loop).result(ANSWER_SECONDS_MAX)
