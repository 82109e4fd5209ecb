"""The logo of an issuer: one SVG, whatever picture the site has."""

import base64
import re
import struct
from typing import Final

LOGO_BYTES_MAX: Final = 1024 * 1024
_PNG: Final = b"\x89PNG\r\n\x1a\n"
_PNG_HEADER: Final = struct.Struct(">8s4x4s2I")
_SVG: Final = re.compile(r"<(\w+:)?svg[\s>]")


def logo_of(content: bytes) -> str:
    """Return a logo as SVG: as it is, or with a PNG embedded.

    Args:
        content: Of a file.

    Raises:
        ValueError: It is neither SVG nor PNG, or larger than LOGO_BYTES_MAX.
    """
    if len(content) > LOGO_BYTES_MAX:
        raise ValueError(f"It has more than {LOGO_BYTES_MAX} bytes.")
    if content.startswith(_PNG) and len(content) >= _PNG_HEADER.size:
        _, _, width, height = _PNG_HEADER.unpack_from(content)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">'
            f'<image width="{width}" height="{height}" '
            f'href="data:image/png;base64,{base64.b64encode(content).decode()}"/></svg>'
        )
    text = content.decode(errors="replace")
    if not _SVG.search(text):
        raise ValueError("It is neither SVG nor PNG.")
    return text
