"""Filters of lists: declared parameters only, and none that reveals whether an id exists.

Relations are filtered by `UUIDFilter` on the id: a choice among rows would answer differently for
an id of a foreign organization and for one that does not exist.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django import forms
from django.core.validators import MaxValueValidator
from django.db.models import F, QuerySet
from django.db.models.functions import Greatest
from django_filters import rest_framework as filters
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework.exceptions import ErrorDetail, ValidationError

from tenants.api.serializers import one_of

PAGE_PARAMETERS = frozenset({"cursor", "page_size", "format", "ordering", "expand"})
INTEGER_MAX = 2**63 - 1


@extend_schema_field(OpenApiTypes.INT64)
class IntegerFilter(filters.NumberFilter):
    """A whole number as PostgreSQL stores it.

    A `NumberFilter` reads decimals: it rounds 7.9 down to a row's 7, and writes -1e1000000 out to
    its last digit, which takes half a minute.
    """

    field_class = forms.IntegerField

    def __init__(self, **kwargs: Any) -> None:  # noqa: ANN401 - Its own.
        """Take the column."""
        super().__init__(min_value=-INTEGER_MAX, **kwargs)

    def get_max_validator(self) -> MaxValueValidator:
        """Return the largest number."""
        return MaxValueValidator(INTEGER_MAX)


class UpdatedFromFilter(filters.IsoDateTimeFilter):
    """Rows that were added or changed at a time or since, by the columns that note each change.

    A row is noted with the time at which its change began, and is seen when it is committed: a
    caller that reads on asks from some minutes before its last time.
    """

    def __init__(self, *columns: str, part: str = "", help_text: str) -> None:
        """Take the columns; an index of a table with many rows is over the same expression.

        Args:
            columns: Of the row itself.
            part: That of rows shown within, such as "allocations__allocated_at"; "" for none.
            help_text: Which changes these are.
        """
        super().__init__(help_text=help_text)
        self._columns = columns
        self._part = part

    def filter(self, qs: QuerySet[Any], value: datetime | None) -> QuerySet[Any]:
        """Return the rows whose latest change is at the time or after it."""
        if value is None:
            return qs
        latest = Greatest(*self._columns) if len(self._columns) > 1 else F(self._columns[0])
        found: QuerySet[Any]
        if not self._part:
            found = qs.alias(updated=latest).filter(updated__gte=value)
            return found
        # A union, because PostgreSQL reads the whole table for an OR over two of them.
        rows = qs.model._default_manager.order_by()  # noqa: SLF001 - Django's documented API.
        own = rows.alias(updated=latest).filter(updated__gte=value).values("pk")
        found = qs.filter(
            pk__in=own.union(rows.filter(**{f"{self._part}__gte": value}).values("pk"))
        )
        return found


class StrictFilterSet(filters.FilterSet):
    """Filters that refuse an unknown query parameter: a typing error must not widen a list."""

    def __init__(self, data: Mapping[str, Any] | None = None, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - Its own.
        """Take the parameters, and copy only the filters that these ask for.

        Filters without a value change nothing, and a copy of each with its form takes as long as
        the query of a page.
        """
        asked = {name: one for name, one in self.base_filters.items() if name in (data or ())}
        self.__dict__["base_filters"] = asked  # Which is what is copied.
        super().__init__(data, *args, **kwargs)

    def is_valid(self) -> bool:
        """Whether every parameter can be used.

        Raises:
            ValidationError: A parameter is not known.
        """
        unknown = sorted(set(self.data) - set(self.filters) - PAGE_PARAMETERS)
        if unknown:
            detail: dict[str, Any] = {
                name: [ErrorDetail("There is no such filter.", code="unknown_filter")]
                for name in unknown
            }
            raise ValidationError(detail)
        for field in self.form.fields.values():
            if isinstance(field, forms.ChoiceField):
                choices: Any = field.choices
                known = (value for value, _ in choices if value)
                field.error_messages["invalid_choice"] = one_of(known)
        if not super().is_valid():
            return False
        cleaned: dict[str, Any] = self.form.cleaned_data
        cleaned |= {
            name: _in_utc(value, field=name)
            for name, value in cleaned.items()
            if isinstance(value, datetime)
        }
        return True


def _in_utc(time: datetime, *, field: str) -> datetime:
    """Return a time in UTC: PostgreSQL takes no offset of 16 hours and more, ISO 8601 does.

    Raises:
        ValidationError: In UTC it lies outside the years 1 to 9999.
    """
    try:
        return time.astimezone(UTC)
    except OverflowError as error:
        detail = ErrorDetail("Use a time of the years 1 to 9999 in UTC.", code="invalid")
        raise ValidationError({field: [detail]}) from error
