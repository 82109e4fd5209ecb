"""Label and field selectors, as they stand in a query string."""

import re
from collections.abc import Callable, Mapping
from typing import Final

from simulator.kubernetes_api.errors import JSON, bad_request
from simulator.kubernetes_api.resources import Resource

Selector = Callable[[JSON], bool]
_KEY: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?"
_EXISTS: Final = re.compile(rf"\s*(!?)\s*({_KEY})\s*")
_EQUALS: Final = re.compile(rf"\s*({_KEY})\s*(==|=|!=)\s*([A-Za-z0-9._-]*)\s*")
_AMONG: Final = re.compile(rf"\s*({_KEY})\s+(in|notin)\s*\(([^()]*)\)\s*")
_COMMAS: Final = re.compile(r",(?![^(]*\))")
"""Commas between requirements, not those inside a set."""


def label_selector(text: str) -> Selector:
    """Return what tells whether an object's labels fit.

    Raises:
        StatusError: 400 for a selector that is none.
    """
    requirements = [_requirement(part) for part in _COMMAS.split(text)] if text.strip() else []

    def fits(obj: JSON) -> bool:
        labels = obj["metadata"].get("labels") or {}
        return all(requirement(labels) for requirement in requirements)

    return fits


def field_selector(resource: Resource, text: str) -> Selector:
    """Return what tells whether an object's fields fit.

    Raises:
        StatusError: 400 for a field that cannot be asked, or a selector that is none.
    """
    wanted = [_field(resource, part) for part in text.split(",") if part.strip()]

    def fits(obj: JSON) -> bool:
        return all((_read(obj, path) == value) is is_equal for path, value, is_equal in wanted)

    return fits


def matches_labels(selector: JSON, labels: Mapping[str, str]) -> bool:
    """Whether labels fit a selector as objects carry it: matchLabels and matchExpressions.

    One that is empty fits everything.
    """
    wanted = (selector.get("matchLabels") or {}).items()
    if any(labels.get(key) != value for key, value in wanted):
        return False
    return all(_fits(one, labels) for one in selector.get("matchExpressions") or [])


def _fits(expression: JSON, labels: Mapping[str, str]) -> bool:
    key, values = expression["key"], expression.get("values") or []
    return {
        "In": key in labels and labels[key] in values,
        "NotIn": labels.get(key) not in values,
        "Exists": key in labels,
        "DoesNotExist": key not in labels,
    }[expression["operator"]]


def _requirement(text: str) -> Callable[[Mapping[str, str]], bool]:
    if match := _AMONG.fullmatch(text):
        key, values = match[1], {value.strip() for value in match[3].split(",")}
        if match[2] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if match := _EQUALS.fullmatch(text):
        key, wanted = match[1], match[3]
        if match[2] == "!=":
            return lambda labels: labels.get(key) != wanted
        return lambda labels: labels.get(key) == wanted
    if match := _EXISTS.fullmatch(text):
        key, is_wanted = match[2], not match[1]
        return lambda labels: (key in labels) is is_wanted
    raise bad_request(f"unable to parse requirement: {text}")


def _field(resource: Resource, text: str) -> tuple[str, str, bool]:
    path, operator, value = re.split(r"(==|!=|=)", text, maxsplit=1) if "=" in text else ("",) * 3
    if not operator:
        raise bad_request(f"invalid selector: '{text}'; can't understand '{text}'")
    if path.strip() not in {"metadata.name", "metadata.namespace", *resource.fields}:
        raise bad_request(f"field label not supported: {path.strip()}")
    return path.strip(), value.strip(), operator != "!="


def _read(obj: JSON, path: str) -> str:
    value: object = obj
    for part in path.split("."):
        value = value.get(part, "") if isinstance(value, dict) else ""
    return str(value)
