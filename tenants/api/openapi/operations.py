"""How every operation is described: its name, its texts, its refusals and its headers."""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from django.conf import settings
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import force_instance
from drf_spectacular.utils import Direction, OpenApiParameter
from rest_framework.serializers import ChoiceField, EmailField

from tenants.api import conditional, expansion, idempotency
from tenants.api.problems import ProblemSerializer
from tenants.selectors.report_database import AS_OF_HEADER

READING: Final = frozenset({"GET", "DELETE"})
"""Methods without a body."""
VERBS: Final = {
    "retrieve": "get",
    "update": "replace",
    "partial_update": "update",
    "destroy": "delete",
}
"""What DRF calls an action, and what its operation is called."""
ACRONYMS: Final = {"api": "API"}
SUCCESSES: Final = {
    "list": "A page of the list.",
    "retrieve": "What was asked for.",
    "create": "What was created.",
}


class LedgerSchema(AutoSchema):
    """The description of one operation, with what the shared plumbing adds to it."""

    def get_operation_id(self) -> str:
        """Return `<verb>_<noun>`, such as list_invoices or approve_quota_request."""
        action = self._action()
        base = getattr(self.view, "basename", None)
        noun = base if base and action != "list" else self._resource()
        name = f"{VERBS.get(action, action) if base else 'get'}_{noun.replace('-', '_')}"
        ids: dict[str, str] = settings.OPENAPI["OPERATION_IDS"]
        return ids.get(name, name)

    def get_summary(self) -> str:
        """Return the heading of an operation: what it does, in one line."""
        noun = self._noun()
        if noun and self._action() == "list":
            return f"List {noun}"
        if noun and self._action() == "retrieve":
            return f"Get {noun}"
        first = re.split(r"[.;:](?:\s|$)", super().get_description(), maxsplit=1)[0]
        return " ".join(first.split())

    def get_description(self) -> str:  # type: ignore[override]
        """Return the docstring of the handler, or of the view where all handlers are alike."""
        noun = self._noun()
        if noun and self._action() == "retrieve":
            return f"Return {noun} with its ETag, where it can be changed."
        return str(super().get_description())

    def get_tags(self) -> list[str]:
        """Return the part of the product that the view belongs to."""
        tags: dict[str, str] = settings.OPENAPI["TAGS"]
        module = type(self.view).__module__
        return [tags[max((name for name in tags if module.startswith(name)), key=len)]]

    def get_override_parameters(self) -> list[Any]:
        """Return the headers that the handler's decorators read, and those of answers."""
        handler = self._handler()
        parameters = list(super().get_override_parameters())
        is_required = getattr(handler, "idempotency_key_is_required", None)
        if is_required is not None:
            parameters.append(
                _header(
                    idempotency.HEADER,
                    is_required=is_required,
                    description="New for each intent; sending it again changes nothing.",
                )
            )
        if getattr(handler, "requires_if_match", False):
            parameters.append(
                _header(
                    conditional.HEADER,
                    is_required=True,
                    description='The ETag of what is changed, such as `"3"`.',
                )
            )
        if self._action() == "list":
            parameters += _HEADERS_OF_LISTS
        names: tuple[str, ...] = (
            getattr(self.view, "expandable", tuple)() if self.method == "GET" else ()
        )
        if names:
            parameters.append(expansion.described(names))
        return parameters

    def _get_response_bodies(self, direction: Direction = "response") -> dict[str, Any]:
        """Return the answers of a handler and, for every refusal, the problem document."""
        bodies: dict[str, Any] = super()._get_response_bodies(direction=direction)
        if direction == "response":
            self.resolve_serializer(ProblemSerializer, direction)
            for body in bodies.values():
                body["description"] = body["description"] or SUCCESSES.get(self._action(), "Done.")
            if self._action() == "list":
                bodies["304"] = {"description": "The list is as the caller has it."}
            bodies |= {
                code: {"$ref": f"#/components/responses/{code}"} for code in self._refusals()
            }
        return bodies

    def _refusals(self) -> Iterator[str]:
        """Yield the statuses from 400 on that the operation may answer."""
        yield from ("401", "403", "406", "422", "429", "default")
        if self._action() != "list":
            yield "404"
        if self.method != "GET":
            yield from ("409", "412", "503")
        elif getattr(self._handler(), "may_conflict", False):
            yield "409"
        if self.method not in READING:
            yield from ("400", "413", "415")
        if getattr(self._handler(), "requires_if_match", False):
            yield "428"

    def _map_basic_serializer(self, serializer: Any, direction: Direction) -> Any:  # noqa: ANN401 - As above.
        """Return the schema of an object; an answer with ids of what has names may have those."""
        schema = super()._map_basic_serializer(serializer, direction)  # type: ignore[no-untyped-call]
        if direction == "response" and expansion.expandable(force_instance(serializer)):  # type: ignore[no-untyped-call]
            names = self.resolve_serializer(expansion.ExpandedSerializer, direction)
            schema["properties"][expansion.FIELD] = names.ref
        return schema

    def _map_serializer_field(
        self,
        field: Any,  # noqa: ANN401 - Any field of DRF's, or a serializer.
        direction: Direction,
        bypass_extensions: bool = False,  # noqa: FBT001, FBT002 - The base's signature.
    ) -> Any:  # noqa: ANN401 - The base's signature.
        """Return the schema of a field; one that may be empty says so beside choices and formats.

        DRF drops this from a field that is only read, though its column may hold an empty text.
        """
        if not _may_be_empty(field):
            return super()._map_serializer_field(field, direction, bypass_extensions)  # type: ignore[no-untyped-call]
        field.allow_blank = True
        return super()._map_serializer_field(field, direction, bypass_extensions)  # type: ignore[no-untyped-call]

    def _insert_field_validators(self, field: Any, schema: dict[str, Any]) -> None:  # noqa: ANN401 - As above.
        """Add the limits of a field's validators; "" is the default of both choices, or of none."""
        super()._insert_field_validators(field, schema)  # type: ignore[no-untyped-call]
        choices = schema.get("oneOf") or [{}]
        if choices[0].get("default") == "":
            schema["default"] = choices[0].pop("default")

    def _get_serializer_field_meta(self, field: Any, direction: Direction) -> dict[str, Any]:  # noqa: ANN401 - As above.
        """Return what is said of a field beside its type; no default that it would refuse."""
        meta: dict[str, Any] = super()._get_serializer_field_meta(field, direction)  # type: ignore[no-untyped-call]
        if meta.get("default") == "" and not getattr(field, "allow_blank", True):
            del meta["default"]
        return meta

    def _action(self) -> str:
        return str(getattr(self.view, "action", None) or self.method.lower())

    def _handler(self) -> object:
        return getattr(self.view, self._action(), None)

    def _resource(self) -> str:
        """Return the first part of the path after the version, such as quota-limits."""
        return str(self.path).removeprefix("/api/v1/").split("/", maxsplit=1)[0]

    def _noun(self) -> str:
        """Return what a list holds, or "a" and one of it; "" for a view that stands alone."""
        base = getattr(self.view, "basename", None)
        if not base:
            return ""
        parts = (self._resource() if self._action() == "list" else base).split("-")
        name = " ".join(ACRONYMS.get(part, part) for part in parts)
        if self._action() == "list":
            return name
        return f"{'an' if name[0].lower() in 'aeio' else 'a'} {name}"


def _may_be_empty(field: object) -> bool:
    """Whether a text that is written or read may be "", by the field or by its model's column."""
    if not isinstance(field, ChoiceField | EmailField):
        return False
    model = getattr(getattr(field.parent, "Meta", None), "model", None)
    columns = {} if model is None else {one.name: one for one in model._meta.fields}  # noqa: SLF001
    is_blank = getattr(columns.get(str(field.source)), "blank", False)
    return bool(field.allow_blank or (field.read_only and is_blank))


def _header(name: str, *, is_required: bool, description: str) -> OpenApiParameter:
    return OpenApiParameter(
        name,
        str,
        location=OpenApiParameter.HEADER,
        required=is_required,
        description=description,
    )


AS_OF_HELP: Final = (
    "All that was recorded until then is in it: the minute up to which a replica that was read has "
    "everything. Null where the primary was read, which has all until the moment of the answer."
)
AS_OF: Final = OpenApiParameter(
    AS_OF_HEADER,
    datetime,
    location=OpenApiParameter.HEADER,
    response=[200],
    description="All that was recorded until then is in the file; a replica may be behind.",
)
_HEADERS_OF_LISTS: Final = (
    _header(
        "If-None-Match",
        is_required=False,
        description="The ETag of an earlier answer: 304 without a body if it would be the same.",
    ),
    OpenApiParameter(
        "ETag",
        str,
        location=OpenApiParameter.HEADER,
        response=[200],
        description="Of these bytes, for If-None-Match.",
    ),
)
