"""Files as they are streamed: blocks of bytes, and the lines in them."""

from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator
from typing import Any, Final

Blocks = Iterator[bytes]
BLOCK_BYTES: Final = 256 * 1024
"""Of what is handed on at once: the database sends row by row."""


def join_blocks(blocks: Iterable[Any], size: int = BLOCK_BYTES) -> Blocks:
    """Yield blocks joined to at least a size, the last one to what is left.

    Args:
        blocks: Bytes, or views of them.
        size: In bytes.
    """
    parts: list[Any] = []
    length = 0
    for block in blocks:
        parts.append(block)
        length += len(block)
        if length >= size:
            yield b"".join(parts)
            parts.clear()
            length = 0
    if parts:
        yield b"".join(parts)


def lines_of(blocks: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines of a text in blocks, with their ends."""
    decode, rest = getincrementaldecoder("utf-8")().decode, ""
    for block in blocks:
        *lines, rest = (rest + decode(block)).split("\n")
        yield from (f"{line}\n" for line in lines)
    if rest:
        yield rest
