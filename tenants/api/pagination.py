"""Keyset pagination: the cursor holds the last row's values of all ordering columns and its key.

Pages are stable under inserts, never count the table, and never repeat or leave out a row, however
many rows share the first columns of the order.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, Final, NamedTuple

from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.db import DataError
from django.db.models import Model, Q, QuerySet
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request
from rest_framework.utils.urls import replace_query_param
from rest_framework.views import APIView

from tenants.domain.errors import InvalidInputError

ORDERING: Final = "ordering"
CURSOR_LENGTH_MAX: Final = 2_000
"""No order of ours is longer; what is longer was not made here."""

PAGE_SIZE_DIGITS_MAX: Final = 9
"""Longer text is too large in any case, and is not read as a number."""


class Position(NamedTuple):
    """Where a page begins: beside the row with these values, itself left out.

    Attributes:
        values: One for each field of the order, as text, None for NULL; none at all for the
            first page, or the last one backwards.
        is_backwards: Whether the page lies before the row.
    """

    values: tuple[str | None, ...] = ()
    is_backwards: bool = False


class CursorPages(CursorPagination):
    """Pages of at most 200, newest first unless the view names another `ordering`.

    Identifiers are UUIDv7 or counters, so descending keys are the newest first. The primary key
    ends every order and makes it total.
    """

    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 200
    ordering = "-pk"

    def get_ordering(
        self,
        request: Request,
        queryset: QuerySet[Any],  # noqa: ARG002 - DRF's signature.
        view: APIView,
    ) -> tuple[str, ...]:
        """Return the order asked for, or the view's own, made total by the primary key.

        Raises:
            InvalidInputError: The list has no such order.
        """
        order = _own_order(view)
        wanted = request.query_params.get(ORDERING)
        if wanted is not None:
            known = orders(view)
            if wanted not in known:
                raise InvalidInputError(
                    "The list has no such order.",
                    field=ORDERING,
                    remedy=f"Use one of: {', '.join(known)}.",
                )
            column = known[wanted]
            own = order if column == order[0] else _reversed(order)
            is_own = own[0] == column and own[-1] in {"pk", "-pk"}
            order = own if is_own else (column, "-pk" if column.startswith("-") else "pk")
        key = next((field for field in order if field in {"pk", "-pk"}), None)
        return (*order, "pk") if key is None else order[: order.index(key) + 1]

    def get_page_size(self, request: Request) -> int:
        """Return how many rows a page has.

        Raises:
            InvalidInputError: The size is no whole number from 1 to the most.
        """
        text = request.query_params.get(self.page_size_query_param)
        if text is None:
            return self.page_size
        is_number = text.isascii() and text.isdigit() and len(text) <= PAGE_SIZE_DIGITS_MAX
        size = int(text) if is_number else 0
        if not 1 <= size <= self.max_page_size:
            raise InvalidInputError(
                f"A page has 1 to {self.max_page_size} rows.",
                field=self.page_size_query_param,
                remedy=f"Use a whole number from 1 to {self.max_page_size}, and follow `next`.",
            )
        return size

    def get_schema_operation_parameters(self, view: APIView) -> list[dict[str, Any]]:
        """Return the parameters of a page: limits and default of its size, and its orders."""
        parameters: list[dict[str, Any]] = super().get_schema_operation_parameters(view)
        for parameter in parameters:
            if parameter["name"] == self.page_size_query_param:
                parameter["schema"] |= {
                    "minimum": 1,
                    "maximum": self.max_page_size,
                    "default": self.page_size,
                }
        known = list(orders(view))
        if known:
            parameters.append(
                {
                    "name": ORDERING,
                    "required": False,
                    "in": "query",
                    "description": "The field to order by; `-` before it means descending.",
                    "schema": {"type": "string", "enum": known},
                }
            )
        return parameters

    def paginate_queryset(
        self,
        queryset: QuerySet[Any] | Sequence[Any],
        request: Request,
        view: APIView | None = None,
    ) -> list[Any] | None:
        """Return one page.

        Raises:
            InvalidInputError: The cursor was not made by this list, or the size cannot be used.
        """
        assert isinstance(queryset, QuerySet)  # noqa: S101 - Every list is one; narrows the type.
        assert view is not None  # noqa: S101 - As above.
        self.address: str = request.build_absolute_uri()
        self.order = self.get_ordering(request, queryset, view)
        self.wanted = request.query_params.getlist(ORDERING)[-1:]
        size = self.get_page_size(request)
        values, is_backwards = self._read_position(
            request.query_params.get(self.cursor_query_param)
        )
        order = _reversed(self.order) if is_backwards else self.order
        rows = queryset.order_by(*order)
        if values:
            rows = rows.filter(_beyond(queryset, order=order, values=values))
        try:
            found = list(rows[: size + 1])
        except DataError as error:
            if not values:
                raise
            raise _unusable() from error
        has_more = len(found) > size
        self.page = found[:size][::-1] if is_backwards else found[:size]
        self.has_next = bool(values) if is_backwards else has_more
        self.has_previous = has_more if is_backwards else bool(values)
        return self.page

    def get_next_link(self) -> str | None:
        """Return the address of the page after this one."""
        return self._link(is_backwards=False) if self.has_next else None

    def get_previous_link(self) -> str | None:
        """Return the address of the page before this one."""
        return self._link(is_backwards=True) if self.has_previous else None

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema of a page: OpenAPI 3.1 knows `null` as a type, not as `nullable`."""
        link = {"type": ["string", "null"], "format": "uri"}
        return {
            "type": "object",
            "required": ["next", "previous", "results"],
            "properties": {"next": link, "previous": dict(link), "results": schema},
        }

    def _link(self, *, is_backwards: bool) -> str:
        """Return the address of a neighbouring page; beside an empty one lies the list's end."""
        values = _values_of(self.page[0 if is_backwards else -1], self.order) if self.page else ()
        text = json.dumps([int(is_backwards), *values, *self.wanted], separators=(",", ":"))
        cursor = urlsafe_b64encode(text.encode()).decode("ascii")
        return replace_query_param(self.address, self.cursor_query_param, cursor)

    def _read_position(self, cursor: str | None) -> Position:
        """Return where the page begins.

        Raises:
            InvalidInputError: The cursor was not made by this list.
        """
        if cursor is None:
            return Position()
        if len(cursor) > CURSOR_LENGTH_MAX:
            raise _unusable()
        try:
            read = json.loads(urlsafe_b64decode(cursor.encode("ascii")))
        except (ValueError, RecursionError) as error:
            raise _unusable() from error
        if not isinstance(read, list) or read[0:1] not in ([0], [1]):
            raise _unusable()
        if self.wanted and read[1:] and read.pop() != self.wanted[0]:
            raise _unusable()
        if len(read) not in (1, 1 + len(self.order)):
            raise _unusable()
        if not all(value is None or _is_clean_text(value) for value in read[1:]):
            raise _unusable()
        return Position(tuple(read[1:]), is_backwards=read[0] == 1)


def orders(view: APIView) -> dict[str, str]:
    """Return what `ordering` may be in a list, with the column of each.

    It is the first field of the list's own order, and what its view adds to that, in both
    directions, where the answer has such a field.
    """
    columns = (_own_order(view)[0].removeprefix("-"), *getattr(view, "orderings", ()))
    shown = getattr(view, "serializer_class", None)
    fields = shown().fields if shown else {}
    names = {"id" if column == "pk" else column.removesuffix("_id"): column for column in columns}
    return {
        f"{sign}{name}": f"{sign}{column}"
        for name, column in names.items()
        if name in fields
        for sign in ("", "-")
    }


def _own_order(view: APIView) -> tuple[str, ...]:
    order = getattr(view, "ordering", None) or CursorPages.ordering
    return (order,) if isinstance(order, str) else tuple(order)


def _beyond(queryset: QuerySet[Any], *, order: Sequence[str], values: Sequence[str | None]) -> Q:
    """Return the condition of all rows after the one with these values, in this order.

    Raises:
        InvalidInputError: The cursor holds a value that its column cannot.
    """
    beyond, equal, leading = Q(pk__in=()), Q(), Q()
    for position, (field, text) in enumerate(zip(order, values, strict=True)):
        name = field.removeprefix("-")
        try:
            value = None if text is None else _output_field(queryset, name).to_python(text)
        except (ValueError, ValidationError, ArithmeticError) as error:
            raise _unusable() from error
        after = _after(queryset, field, value)
        same = Q(**{f"{name}__isnull": True}) if value is None else Q(**{name: value})
        if position == 0:
            # Every row wanted satisfies this too, and an index of the first column can use it.
            leading = after | same
        beyond |= equal & after
        equal &= same
    return leading & beyond


def _after(queryset: QuerySet[Any], field: str, value: object) -> Q:
    """Return the condition of values after one: PostgreSQL sorts NULL as the largest."""
    name = field.removeprefix("-")
    if field.startswith("-"):
        return Q(**{f"{name}__isnull": False}) if value is None else Q(**{f"{name}__lt": value})
    if value is None:
        return Q(pk__in=())
    larger = Q(**{f"{name}__gt": value})
    return larger | Q(**{f"{name}__isnull": True}) if _is_nullable(queryset, name) else larger


def _output_field(queryset: QuerySet[Any], name: str) -> Any:  # noqa: ANN401 - Any field of Django's.
    if name == "pk":
        return queryset.model._meta.pk  # noqa: SLF001 - Django's documented API of fields.
    if name in queryset.query.annotations:
        return queryset.query.annotations[name].output_field
    return queryset.model._meta.get_field(name)  # noqa: SLF001 - As above.


def _is_nullable(queryset: QuerySet[Any], name: str) -> bool:
    """Whether a column may be NULL; what is computed may."""
    if name in queryset.query.annotations:
        return True
    try:
        return bool(_output_field(queryset, name).null)
    except FieldDoesNotExist:
        return True


def _values_of(row: Model, order: Sequence[str]) -> tuple[str | None, ...]:
    return tuple(_text_of(getattr(row, field.removeprefix("-"))) for field in order)


def _text_of(value: object) -> str | None:
    if value is None:
        return None
    return value.isoformat() if isinstance(value, date | datetime) else str(value)


def _is_clean_text(value: object) -> bool:
    """Whether a value may be compared with a column: UTF-8 without NUL."""
    if not isinstance(value, str) or "\x00" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _reversed(order: Sequence[str]) -> tuple[str, ...]:
    return tuple(
        field.removeprefix("-") if field.startswith("-") else f"-{field}" for field in order
    )


def _unusable() -> InvalidInputError:
    return InvalidInputError(
        "The cursor cannot be used.",
        field="cursor",
        remedy="Follow `next` and `previous` as they were given.",
    )
