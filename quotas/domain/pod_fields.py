"""Fields of a pod read with suspicion: anything may stand where a list or a text should."""

from collections.abc import Sequence
from typing import Any, Final

JSON = dict[str, Any]
TEXT_MAX: Final = 253
ENTRIES_MAX: Final = 2_000
"""Containers, variables, volumes: more of them do not fit into an object of the API server."""


class PodInvalidError(Exception):
    """Raised for a pod that no API server would make; the text says what is wrong."""


def mapping(value: object, name: str) -> JSON:
    """Return a JSON object; what is null or missing is empty.

    Raises:
        PodInvalidError: It is something else.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise PodInvalidError(f"{name} is no object.")
    return value


def objects(value: object, name: str) -> Sequence[JSON]:
    """Return the objects of a JSON array; what is null or missing has none.

    Raises:
        PodInvalidError: It is something else, or too long.
    """
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > ENTRIES_MAX:
        raise PodInvalidError(f"{name} is no list, or too long.")
    for entry in value:
        if not isinstance(entry, dict):
            raise PodInvalidError(f"{name} holds what is no object.")
    return value


def text(value: object, name: str, *, limit: int = TEXT_MAX) -> str:
    """Return a text; what is null or missing is "".

    Raises:
        PodInvalidError: It is something else, too long, or holds control characters.
    """
    if value is None or value == "":
        return ""
    if not isinstance(value, str) or len(value) > limit or not value.isprintable():
        raise PodInvalidError(f"{name} is no text, or too long.")
    return value


def texts(value: object, name: str) -> dict[str, str]:
    """Return a JSON object of texts, such as labels.

    Raises:
        PodInvalidError: It is something else.
    """
    return {key: text(one, name) for key, one in mapping(value, name).items()}
