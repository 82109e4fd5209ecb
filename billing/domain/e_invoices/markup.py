"""XML as text: elements that are left out when they are empty, the same bytes every time."""

import re
from datetime import date
from decimal import Decimal
from typing import Final
from xml.sax.saxutils import escape

DECLARATION: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'
# Source: XML 1.0, production 2.
_FORBIDDEN: Final = re.compile(r"[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_REPLACEMENT: Final = "\ufffd"


def element(name: str, *content: str, **attributes: str) -> str:
    """Return an element with content that is XML already; "" without any content."""
    inner = "".join(content)
    return f"<{name}{_attributes(attributes)}>{inner}</{name}>" if inner else ""


def leaf(name: str, value: str | int | Decimal | date, **attributes: str) -> str:
    """Return an element with a text, a number or a day; "" for a text of spaces."""
    return element(name, _text(value), **attributes)


def _text(value: str | int | Decimal | date) -> str:
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, date):
        return value.isoformat()
    text = str(value).strip()
    if text.isascii() and text.isprintable():
        return escape(text)
    return escape(_FORBIDDEN.sub(_REPLACEMENT, text))


def _attributes(attributes: dict[str, str]) -> str:
    return "".join(f' {name}="{escape(value)}"' for name, value in attributes.items())
