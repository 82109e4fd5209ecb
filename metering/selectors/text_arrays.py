"""Texts as one array parameter: psycopg quotes those of a list one by one, in Python."""

from collections.abc import Collection
from typing import Final

_SEPARATOR: Final = "\0"
"""Stands between texts while they are escaped; no text that PostgreSQL keeps has it."""


def text_array(texts: Collection[str]) -> str:
    """Return texts as PostgreSQL spells an array; cast the parameter to `text[]`.

    Source: PostgreSQL, "Array Input and Output Syntax".

    Raises:
        ValueError: A text has a NUL.
    """
    if not texts:
        return "{}"
    joined = _SEPARATOR.join(texts)
    if joined.count(_SEPARATOR) != len(texts) - 1:
        raise ValueError("a text has a NUL")
    escaped = joined.replace("\\", "\\\\").replace('"', '\\"')
    return '{"' + escaped.replace(_SEPARATOR, '","') + '"}'
