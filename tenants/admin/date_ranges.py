"""The filters of lists: a range of days above them, and choices in words."""

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, ClassVar, Final

from django.contrib.admin import EmptyFieldListFilter, FieldListFilter
from django.db.models import DateTimeField, QuerySet
from django.http import HttpRequest
from unfold.admin import ModelAdmin

MARKS: Final[Mapping[str, tuple[str, str, str]]] = {
    "correction_id": ("what it is of", "Usage", "A correction"),
    "organization": ("payer", "Not known", "Known"),
    "continued_at": ("state", "Stopped", "Continued"),
    "drifted_at": ("changed by others", "No", "Yes"),
    "end_at": ("state", "Ongoing", "Ended"),
    "resolved_at": ("state", "Open", "Resolved"),
    "superseded_at": ("state", "In force", "Replaced"),
    "withdrawn_at": ("state", "In force", "Withdrawn"),
}
"""By a column that is filled once something has happened: its title, and what both mean."""
TITLES: Final[Mapping[str, str]] = {
    "actor_kind": "done by",
    "allow_shared_with_other_tenants": "shared with other tenants",
    "begin_at": "begin",
    "billing_currency": "currency",
    "created_at": "created",
    "end_kind": "how it ended",
    "expires_at": "end",
    "is_active": "active",
    "is_certain": "certain",
    "is_complete": "complete",
    "is_watched": "watched",
    "label": "month",
    "object_kind": "object",
    "occurred_at": "time",
    "period__label": "month",
    "period__state": "state of the month",
    "posting_on": "posting day",
    "revoked_at": "revoked",
    "sharing_mode": "shared by",
    "start_at": "hour",
    "window_start": "hour",
    "work_kind": "kind of work",
}
"""What a filter chooses by, where the column's name does not say it."""


class DayRangeFilter(FieldListFilter):
    """The rows from one UTC day to another, both included; a day that is none finds no row."""

    template = "admin/no_filter.html"
    is_day_range = True

    def __init__(
        self,
        field: Any,  # noqa: ANN401 - Django's signature; so are the others.
        request: HttpRequest,
        *arguments: Any,  # noqa: ANN401
        **named: Any,  # noqa: ANN401
    ) -> None:
        """Read the days from the address, and what else it has."""
        super().__init__(field, request, *arguments, **named)
        _, _, model_admin, *_ = arguments
        self.title = model_admin.day_title or TITLES.get(self.field_path, self.title)
        names = self._names()
        self.typed = [request.GET.get(name, "").strip() for name in names]
        self.others = [
            (name, value)
            for name, values in request.GET.lists()
            if name not in {*names, "p"}
            for value in values
        ]
        self.problem = ""

    def expected_parameters(self) -> list[str | None]:
        """Return the names of both days in an address."""
        return [*self._names()]

    def _names(self) -> tuple[str, str]:
        return f"{self.field_path}_from", f"{self.field_path}_to"

    @property
    def inputs(self) -> list[dict[str, str]]:
        """Return both fields of the form."""
        return [
            {"name": name, "value": value, "label": label}
            for name, value, label in zip(self._names(), self.typed, ("from", "to"), strict=True)
        ]

    def choices(self, changelist: Any) -> Iterator[Any]:  # noqa: ANN401, ARG002 - Django's signature.
        """Return no choices: the days are typed above the list."""
        return iter(())

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:  # noqa: ARG002 - Django's signature.
        """Return the rows of the days."""
        try:
            first, last = (date.fromisoformat(text) if text else None for text in self.typed)
        except ValueError:
            self.problem = "Write days as 2026-10-31."
            return queryset.none()
        if first is not None:
            queryset = queryset.filter(**{f"{self.field_path}__gte": self._begin(first)})
        if last is not None and last < date.max:
            end = self._begin(last + timedelta(days=1))
            queryset = queryset.filter(**{f"{self.field_path}__lt": end})
        return queryset

    def _begin(self, day: date) -> date:
        if not isinstance(self.field, DateTimeField):
            return day
        return datetime(day.year, day.month, day.day, tzinfo=UTC)


class MarkFilter(EmptyFieldListFilter):
    """Whether something has happened, in words of what it is."""

    def choices(self, changelist: Any) -> Iterator[Any]:  # noqa: ANN401 - Django's signature.
        """Yield all, before it has happened, and after."""
        _, *words = MARKS[self.field_path]
        everything, *found = super().choices(changelist)
        yield everything
        for choice, text in zip(found, words, strict=True):
            yield {**choice, "display": text}


class DatedAdmin(ModelAdmin):
    """A list with a range of days above it, and filters in words.

    Attributes:
        day_column: The column of the days; "" for that of `date_hierarchy`, if there is one.
        day_title: What the days are called; "" for the name of the column.
    """

    day_column: ClassVar[str] = ""
    day_title: ClassVar[str] = ""

    def get_list_filter(self, request: HttpRequest) -> list[Any]:
        """Return the filters of the list, and that of its days."""
        filters = list(super().get_list_filter(request))
        column = self.day_column or self.date_hierarchy or ""
        return [*filters, (column, DayRangeFilter)] if column else filters

    def get_changelist_instance(self, request: HttpRequest) -> Any:  # noqa: ANN401 - Django's list.
        """Return the list with filters whose titles are words."""
        found = super().get_changelist_instance(request)
        for spec in found.filter_specs:
            if isinstance(spec, MarkFilter):
                spec.title = MARKS[spec.field_path][0]
            elif not isinstance(spec, DayRangeFilter):
                spec.title = TITLES.get(getattr(spec, "field_path", ""), spec.title)
        return found


def moment_of(text: str) -> datetime | None:
    """Return a moment in ISO 8601 with its zone; None for anything else."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None
