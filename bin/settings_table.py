"""Tables of docs/reference that are written from the code: environment variables, and events."""

import re
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import AnyUrl, UrlConstraints
from pydantic.fields import FieldInfo

from config.env import Environment
from tenants.domain.notification_events import NOTIFICATION_EVENTS

ROW = re.compile(r"^\| `(?P<name>[A-Z_]+)` \|.*\| (?P<meaning>[^|]+) \|$")
PLAIN = {"str": "text", "bool": "`true` or `false`", "AnyUrl": "URL", "Path": "path"}
LISTS = {"IPvAnyNetwork": "networks", "str": "names", "int": "whole numbers"}
NO_MEANING = "…"


def refresh(docs: Path, *, is_writing: bool) -> list[str]:
    """Write or compare the tables; return what a person has to do."""
    return [
        *refresh_variables(docs, is_writing=is_writing),
        *refresh_events(docs, is_writing=is_writing),
    ]


def refresh_events(docs: Path, *, is_writing: bool) -> list[str]:
    """Write or compare the table of events; return what a person has to do."""
    path = docs / "reference" / "notifications.md"
    text = path.read_text(encoding="utf-8")
    begin = text.index("| event |")
    rows = [
        f"| `{name}` | {event.when} | {event.recipients} |"
        for name, event in NOTIFICATION_EVENTS.items()
    ]
    table = "\n".join(["| event | when | mail recipients |", "|---|---|---|", *rows])
    fresh = text[:begin] + table + text[text.index("\n\n", begin) :]
    if is_writing:
        path.write_text(fresh, encoding="utf-8")
    elif fresh != text:
        return [f"{path.name} is not as the events of the code are. Run `make docs`."]
    return []


def refresh_variables(docs: Path, *, is_writing: bool) -> list[str]:
    """Write or compare the first table of the page; return what a person has to do.

    Order, types and defaults are the code's; the page itself keeps each meaning.
    """
    path = docs / "reference" / "environment.md"
    text = path.read_text(encoding="utf-8")
    begin = text.index("| variable |")
    end = text.index("\n\n", begin)
    head, known = text[begin:end].splitlines()[:2], meanings(text[begin:end])
    rows = [row(name, field, known) for name, field in Environment.model_fields.items()]
    fresh = text[:begin] + "\n".join([*head, *rows]) + text[end:]
    if is_writing:
        path.write_text(fresh, encoding="utf-8")
    elif fresh != text:
        return [f"{path.name} is not as config/env.py is. Run `make docs`."]
    return [
        f"{path.name}: {name} has no meaning. Write it in its row."
        for name in Environment.model_fields
        if known.get(name, NO_MEANING) == NO_MEANING
    ]


def meanings(table: str) -> Mapping[str, str]:
    """Return the last cell of each row, by variable."""
    found = (ROW.match(line) for line in table.splitlines())
    return {match["name"]: match["meaning"] for match in found if match}


def row(name: str, field: FieldInfo, known: Mapping[str, str]) -> str:
    """Return the row of a variable."""
    return f"| `{name}` | {form(name, field)} | {default(field)} | {known.get(name, NO_MEANING)} |"


def form(name: str, field: FieldInfo) -> str:
    """Return the type of a variable in words: its title in the code, else by its annotation.

    Raises:
        ValueError: The type has no words here, and the field has no title.
    """
    if field.title:
        return field.title
    kind = _without_none(field.annotation)
    rules = {
        rule: getattr(one, rule)
        for one in field.metadata
        for rule in ("ge", "le", "min_length")
        if getattr(one, rule, None) is not None
    }
    if "min_length" in rules:
        return f"text, {rules['min_length']} characters or more"
    if kind is int:
        return f"whole number, {rules['ge']} to {rules['le']}"
    if get_origin(kind) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(kind))
    return _form_of_type(name, kind, field)


def _form_of_type(name: str, kind: Any, field: FieldInfo) -> str:  # noqa: ANN401 - Any type at all.
    schemes = _schemes(kind, field)
    if schemes:
        *first, last = (f"`{scheme}://`" for scheme in schemes)
        return f"{', '.join(first)} or {last} URL"
    origin, inner = get_origin(kind), _name(next(iter(get_args(kind)), None))
    if origin is tuple and inner in LISTS:
        return f"{LISTS[inner]}, separated by commas"
    if origin is dict:
        return "JSON object"
    if _name(kind) in PLAIN:
        return PLAIN[_name(kind)]
    raise ValueError(f"config/env.py: {name} needs a title that says what may be written.")


def _schemes(kind: Any, field: FieldInfo) -> list[str]:  # noqa: ANN401 - As above.
    """Return the schemes that a URL may have; none without such a rule."""
    rules = [*field.metadata, *getattr(kind, "__metadata__", ())]
    found = [one.allowed_schemes for one in rules if isinstance(one, UrlConstraints)]
    return next((schemes for schemes in found if schemes), [])


def _without_none(annotation: Any) -> Any:  # noqa: ANN401 - As above.
    if get_origin(annotation) in (Union, UnionType):
        return next(part for part in get_args(annotation) if part is not type(None))
    return annotation


def _name(kind: Any) -> str:  # noqa: ANN401 - As above.
    origin = getattr(kind, "__origin__", kind)
    return getattr(origin, "__name__", "")


def default(field: FieldInfo) -> str:
    """Return a default as it would be written into the environment."""
    if field.is_required():
        return "required"
    value: Any = field.get_default(call_default_factory=True)
    if value is None:
        return "unset"
    if value in ("", ()):
        return "empty"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`{','.join(map(str, value))}`"
    return f"`{str(value).removesuffix('/') if isinstance(value, AnyUrl) else value}`"
