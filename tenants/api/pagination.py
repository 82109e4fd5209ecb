"""Cursor pages: stable under inserts, and never counting the whole table."""

from collections.abc import Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from rest_framework.exceptions import NotFound
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request
from rest_framework.views import APIView

from tenants.domain.errors import InvalidInputError


class CursorPages(CursorPagination):
    """Pages of at most 200, newest first unless the view names another `ordering`.

    Identifiers are UUIDv7 or counters, so descending keys are the newest first. The view's
    ordering should begin with a column that seldom repeats; the primary key settles the rest.
    """

    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 200
    ordering = "-pk"

    def get_ordering(
        self,
        request: Request,  # noqa: ARG002 - DRF's signature.
        queryset: QuerySet[Any],  # noqa: ARG002 - As above.
        view: APIView,
    ) -> tuple[str, ...]:
        """Return the view's order, made total by the primary key."""
        wanted = getattr(view, "ordering", None) or self.ordering
        fields = (wanted,) if isinstance(wanted, str) else tuple(wanted)
        return fields if {"pk", "-pk"} & set(fields) else (*fields, "pk")

    def paginate_queryset(
        self,
        queryset: QuerySet[Any] | Sequence[Any],
        request: Request,
        view: APIView | None = None,
    ) -> list[Any] | None:
        """Return one page.

        Raises:
            InvalidInputError: The cursor was not made by this list.
        """
        try:
            return super().paginate_queryset(queryset, request, view)
        except (NotFound, ValueError, ValidationError) as error:
            raise InvalidInputError(
                "The cursor cannot be used.",
                field="cursor",
                remedy="Follow `next` and `previous` as they were given.",
            ) from error
