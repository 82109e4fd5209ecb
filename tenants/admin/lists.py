"""What lists have in common, however long they are: filters, a range of days, and page numbers."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final

from django.contrib.admin import (
    EmptyFieldListFilter,
    FieldListFilter,
    ListFilter,
    RelatedFieldListFilter,
    ShowFacets,
    SimpleListFilter,
)
from django.contrib.admin.utils import get_fields_from_path
from django.core.paginator import Paginator
from django.db.models import CharField, DateTimeField, Model, QuerySet
from django.http import HttpRequest
from django.utils.formats import number_format
from django.utils.functional import cached_property
from django.utils.text import capfirst
from django.utils.translation import gettext, gettext_noop
from unfold.admin import ModelAdmin

if TYPE_CHECKING:
    RowPaginator = Paginator[Any]
else:
    RowPaginator = Paginator

LINKS_MAX: Final = 20
"""More rows to choose from are a box to select from, not links."""
NEWEST_ROWS: Final = 5_000
"""Whose values a filter offers, where a list does not name them."""
COUNTED_MAX: Final = 100_000
"""To count more would take as long as the list itself."""

MARKS: Final[Mapping[str, tuple[str, str, str]]] = {
    "correction_id": (
        gettext_noop("what it is of"),
        gettext_noop("Usage"),
        gettext_noop("A correction"),
    ),
    "organization": (gettext_noop("payer"), gettext_noop("Not known"), gettext_noop("Known")),
    "continued_at": (gettext_noop("state"), gettext_noop("Stopped"), gettext_noop("Continued")),
    "drifted_at": (gettext_noop("changed by others"), gettext_noop("No"), gettext_noop("Yes")),
    "end_at": (gettext_noop("state"), gettext_noop("Ongoing"), gettext_noop("Ended")),
    "resolved_at": (gettext_noop("state"), gettext_noop("Open"), gettext_noop("Resolved")),
    "restored_at": (gettext_noop("state"), gettext_noop("Archived"), gettext_noop("Restored")),
    "superseded_at": (gettext_noop("state"), gettext_noop("In force"), gettext_noop("Replaced")),
    "withdrawn_at": (gettext_noop("state"), gettext_noop("In force"), gettext_noop("Withdrawn")),
}
"""By a column that is filled once something has happened: its title, and what both mean."""
TITLES: Final[Mapping[str, str]] = {
    "actor_kind": gettext_noop("done by"),
    "allow_shared_with_other_tenants": gettext_noop("shared with other tenants"),
    "begin_at": gettext_noop("begin"),
    "billing_currency": gettext_noop("currency"),
    "created_at": gettext_noop("created"),
    "end_kind": gettext_noop("how it ended"),
    "expires_at": gettext_noop("end"),
    "is_active": gettext_noop("active"),
    "is_certain": gettext_noop("certain"),
    "is_complete": gettext_noop("complete"),
    "is_watched": gettext_noop("watched"),
    "label": gettext_noop("month"),
    "object_kind": gettext_noop("object"),
    "occurred_at": gettext_noop("time"),
    "period__label": gettext_noop("month"),
    "period__state": gettext_noop("state of the month"),
    "posting_on": gettext_noop("posting day"),
    "revoked_at": gettext_noop("revoked"),
    "sharing_mode": gettext_noop("shared by"),
    "start_at": gettext_noop("hour"),
    "table_name": gettext_noop("table"),
    "window_start": gettext_noop("hour"),
    "work_kind": gettext_noop("kind of work"),
}
"""What a filter chooses by, where the column's name does not say it."""


class CountedPaginator(RowPaginator):
    """Pages of at most COUNTED_MAX rows: those behind are reached by filters."""

    template_name = "admin/pages.html"

    @cached_property
    def count(self) -> int:
        """The number of rows, of more than COUNTED_MAX that one."""
        return min(self._counted, COUNTED_MAX)

    @cached_property
    def is_more(self) -> bool:
        """Whether there are rows behind the last page."""
        return self._counted > COUNTED_MAX

    @property
    def count_text(self) -> str:
        """The number of rows as people write it."""
        return number_format(self.count, force_grouping=True)

    @cached_property
    def _counted(self) -> int:
        rows: Any = self.object_list
        return int(rows.order_by()[: COUNTED_MAX + 1].count())


def _others(request: HttpRequest, names: Collection[str | None]) -> list[tuple[str, str]]:
    """Return what else the address has, for the hidden fields of a filter's form."""
    return [
        (name, value)
        for name, values in request.GET.lists()
        if name not in {*names, "p"}
        for value in values
    ]


class BoxFilter:
    """A filter that shows many rows as a box to select from."""

    lookup_choices: Any
    chosen: set[str]

    def offer(self, request: HttpRequest, *, key: str) -> None:
        """Keep what else the address has, and become a box where there are many rows."""
        self.others = _others(request, [key])
        if len(self.lookup_choices) > LINKS_MAX:
            self.template = "admin/select_filter.html"

    @property
    def options(self) -> Iterator[dict[str, Any]]:
        """Yield value, label and whether it is chosen, of each row."""
        for key, label in self.lookup_choices:
            yield {"value": key, "label": label, "is_chosen": str(key) in self.chosen}


class RowsFilter(BoxFilter, RelatedFieldListFilter):
    """The rows of another table: links, or where they are many a box to select from."""

    def __init__(
        self,
        field: Any,  # noqa: ANN401 - Django's signature; so are the others.
        request: HttpRequest,
        params: Any,  # noqa: ANN401
        model: Any,  # noqa: ANN401
        model_admin: Any,  # noqa: ANN401
        field_path: str,
    ) -> None:
        """Read the rows to choose from, and what else the address has."""
        key = f"{field_path}__{field.target_field.name}__exact"
        if params.get(key) == [""]:
            del params[key]
        super().__init__(field, request, params, model, model_admin, field_path)
        self.chosen = {str(one) for one in self.lookup_val or ()}
        self.offer(request, key=self.lookup_kwarg)


class NamesFilter(BoxFilter, SimpleListFilter):
    """Rows of another table by a name of their own, like `RowsFilter`."""

    def __init__(self, request: HttpRequest, params: Any, model: Any, model_admin: Any) -> None:  # noqa: ANN401 - Django's signature.
        """Read the names to choose from, and what else the address has."""
        super().__init__(request, params, model, model_admin)
        self.lookup_kwarg = str(self.parameter_name)
        self.chosen = {str(self.value())}
        self.offer(request, key=self.lookup_kwarg)


class ValuesFilter(FieldListFilter):
    """The values of a column: those that the list names, or those of the newest rows."""

    def __init__(
        self,
        field: Any,  # noqa: ANN401 - Django's signature; so are the others.
        request: HttpRequest,
        params: Any,  # noqa: ANN401
        model: Any,  # noqa: ANN401
        model_admin: Any,  # noqa: ANN401
        field_path: str,
    ) -> None:
        """Read the values to choose from."""
        super().__init__(field, request, params, model, model_admin, field_path)
        found: Any = self.used_parameters.get(field_path, ())
        self.chosen = {str(one) for one in found}
        self.values = [str(one) for one in model_admin.filter_values.get(field_path, ())]
        if not self.values:
            newest = model._default_manager.order_by("-pk").values_list(field_path, flat=True)  # noqa: SLF001 - Django's documented name.
            self.values = sorted({*newest[:NEWEST_ROWS], *self.chosen})

    def expected_parameters(self) -> list[str | None]:
        """Return the name of the value in an address."""
        return [self.field_path]

    def has_output(self) -> bool:
        """Whether there is anything to choose."""
        return bool(self.values)

    def choices(self, changelist: Any) -> Iterator[Any]:  # noqa: ANN401 - Django's signature.
        """Yield all, and each value."""
        everything = changelist.get_query_string(remove=[self.field_path])
        yield {"selected": not self.chosen, "query_string": everything, "display": gettext("All")}
        for value in self.values:
            yield {
                "selected": value in self.chosen,
                "query_string": changelist.get_query_string({self.field_path: value}),
                "display": value or "-",
            }


def _title_of(spec: ListFilter) -> str:
    """Return what a filter chooses by, in words."""
    title = TITLES.get(getattr(spec, "field_path", ""))
    return gettext(title) if title else str(spec.title)


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
        self.title = gettext(model_admin.day_title) if model_admin.day_title else _title_of(self)
        names = self._names()
        self.typed = [request.GET.get(name, "").strip() for name in names]
        self.others = _others(request, names)
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
            for name, value, label in zip(
                self._names(), self.typed, (gettext("from"), gettext("to")), strict=True
            )
        ]

    def choices(self, changelist: Any) -> Iterator[Any]:  # noqa: ANN401, ARG002 - Django's signature.
        """Return no choices: the days are typed above the list."""
        return iter(())

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:  # noqa: ARG002 - Django's signature.
        """Return the rows of the days."""
        try:
            first, last = (date.fromisoformat(text) if text else None for text in self.typed)
        except ValueError:
            self.problem = gettext("Write days as 2026-10-31.")
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
            yield {**choice, "display": gettext(text)}


class DatedAdmin(ModelAdmin):
    """A list with a range of days above it, filters in words, and as many rows as there are.

    Attributes:
        day_column: The column of the days; "" for none.
        day_title: What the days are called; "" for the name of the column.
        filter_values: What a column without choices may hold, by column: they are not looked for.
    """

    day_column: ClassVar[str] = ""
    day_title: ClassVar[str] = ""
    filter_values: ClassVar[Mapping[str, Iterable[str]]] = {}
    paginator = CountedPaginator
    show_facets = ShowFacets.NEVER  # Each would count the whole table.

    def get_exclude(self, request: HttpRequest, obj: Model | None = None) -> tuple[str, ...]:
        """Return what a row's page leaves out: numbers of accounts beside their names."""
        names = [field.name for field in self.model._meta.fields]  # noqa: SLF001 - Model meta.
        numbers = (name for name in names if name.endswith("_by_id"))
        return (*(super().get_exclude(request, obj) or ()), *numbers)

    def get_list_filter(self, request: HttpRequest) -> list[Any]:
        """Return the filters of the list, and that of its days."""
        filters = [self._filter(one) for one in super().get_list_filter(request)]
        return [*filters, (self.day_column, DayRangeFilter)] if self.day_column else filters

    def _filter(self, named: Any) -> tuple[str, type[ListFilter]] | Any:  # noqa: ANN401 - As in `list_filter`.
        """Return a column with a filter whose time does not grow with the table."""
        if not isinstance(named, str):
            return named
        field = get_fields_from_path(self.model, named)[-1]
        if field.remote_field:
            return named, RowsFilter
        if isinstance(field, CharField) and not field.flatchoices and "__" not in named:
            return named, ValuesFilter
        return named

    def get_changelist_instance(self, request: HttpRequest) -> Any:  # noqa: ANN401 - Django's list.
        """Return the list, with filters whose titles are words."""
        found = super().get_changelist_instance(request)
        found.title = capfirst(str(self.opts.verbose_name_plural))
        if not (found.query or found.has_active_filters):
            # All rows are shown: the theme offers to show all where these two differ.
            found.full_result_count = found.result_count
        for spec in found.filter_specs:
            if isinstance(spec, MarkFilter):
                spec.title = gettext(MARKS[spec.field_path][0])
            elif not isinstance(spec, DayRangeFilter):
                spec.title = _title_of(spec)
        return found


def moment_of(text: str) -> datetime | None:
    """Return a moment in ISO 8601 with its zone; None for anything else."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None
