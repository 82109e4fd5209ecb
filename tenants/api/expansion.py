"""`expand=organization,project,cluster`: names beside the ids of an answer.

Each object of the answer, nested ones too, that has such an id gets a field `expanded` with id,
slug and name of what it points at. A page costs one more statement for each kind, however many rows
it has.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final
from uuid import UUID

from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.request import Request

from tenants.access import organizations_visible_to, projects_visible_to
from tenants.domain.actors import Actor
from tenants.domain.errors import InvalidInputError
from tenants.selectors.names import ObjectName, cluster_names, names_of

PARAMETER: Final = "expand"
FIELD: Final = "expanded"

_NAMES: Final[Mapping[str, Callable[[Actor, Collection[UUID]], dict[UUID, ObjectName]]]] = {
    "organization": lambda actor, ids: names_of(organizations_visible_to(actor), ids),
    "project": lambda actor, ids: names_of(projects_visible_to(actor), ids),
    "cluster": lambda _, ids: cluster_names(ids),
}


class ObjectNameSerializer(serializers.Serializer[Any]):
    """What people call an object."""

    id = serializers.UUIDField()
    slug = serializers.CharField()
    name = serializers.CharField()


class ExpandedSerializer(serializers.Serializer[Any]):
    """Names of what a row points at, as `expand` asks for; null where the caller's role ends."""

    organization = ObjectNameSerializer(required=False, allow_null=True)
    project = ObjectNameSerializer(required=False, allow_null=True)
    cluster = ObjectNameSerializer(required=False, allow_null=True)


def expandable(serializer: object) -> tuple[str, ...]:
    """Return which fields of a serializer `expand` may name: ids of what has a name."""
    fields = getattr(getattr(serializer, "child", serializer), "fields", {})
    return tuple(name for name in _NAMES if isinstance(fields.get(name), serializers.UUIDField))


def described(names: Collection[str]) -> OpenApiParameter:
    """Return the query parameter as the API description shows it."""
    return OpenApiParameter(
        PARAMETER,
        {"type": "array", "items": {"type": "string", "enum": list(names)}},
        explode=False,
        style="form",
        description="Adds `expanded` with id, slug and name of each of these to every row.",
    )


def wanted_names(request: Request, known: Collection[str]) -> tuple[str, ...]:
    """Return the fields that a request wants expanded.

    Raises:
        InvalidInputError: The answer has no such ids.
    """
    # Clients made of the description repeat the parameter, whatever it says of commas.
    texts = request.query_params.getlist(PARAMETER)
    wanted = tuple(dict.fromkeys(name for text in texts for name in text.split(",")))
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise InvalidInputError(
            f"{unknown[0][:40]!r} cannot be expanded here.",
            field=PARAMETER,
            remedy=f"Use some of: {', '.join(known)}." if known else "Leave `expand` out.",
        )
    return wanted


def add_names(body: object, wanted: Collection[str], *, actor: Actor) -> None:
    """Add the names to every object of an answer that has one of these ids."""
    rows = list(_objects(body))
    for kind in wanted:
        held = [(row, _id_of(row[kind])) for row in rows if kind in row]
        names = _NAMES[kind](actor, {key for _, key in held if key is not None})
        for row, key in held:
            if key is not None or row[kind] is None:
                name = None if key is None else names.get(key)
                row.setdefault(FIELD, {})[kind] = None if name is None else asdict(name)


def _objects(body: object) -> Iterator[dict[str, Any]]:
    """Yield the objects of an answer, outer ones first."""
    if isinstance(body, dict):
        yield body
    inner = body.values() if isinstance(body, dict) else body if isinstance(body, list) else ()
    for value in inner:
        yield from _objects(value)


def _id_of(value: object) -> UUID | None:
    """Return an id; None for a slug under the same name, and for null."""
    try:
        return UUID(str(value))
    except ValueError:
        return None
