"""The form above the page of costs: days, grouping and filters, as they stand in its address."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from django import forms
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from unfold.widgets import (
    UnfoldAdminDateWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
)

from billing.domain.costs import DAY, LAST_DAY, CostDimension, CostPreset, CostQuery
from metering.domain.catalogue.units import GPUSize
from tenants.admin.refusals import refusal_sentence
from tenants.domain.errors import DomainError

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise

LABELS: Final = {
    CostDimension.ORGANIZATION: gettext_lazy("Organization"),
    CostDimension.PROJECT: gettext_lazy("Project"),
    CostDimension.OWNER: gettext_lazy("Person"),
    CostDimension.COST_CENTER: gettext_lazy("Cost center"),
    CostDimension.SIZE: gettext_lazy("Size"),
    CostDimension.PRICE_GROUP: gettext_lazy("Model and share"),
    CostDimension.CLUSTER: gettext_lazy("Cluster"),
}
LACKING: Final = {
    CostDimension.ORGANIZATION: gettext_lazy("no organization"),
    CostDimension.PROJECT: gettext_lazy("no project"),
    CostDimension.OWNER: gettext_lazy("no person"),
    CostDimension.COST_CENTER: gettext_lazy("no cost center"),
    CostDimension.SIZE: gettext_lazy("no size"),
    CostDimension.PRICE_GROUP: gettext_lazy("no model and share"),
    CostDimension.CLUSTER: gettext_lazy("no cluster"),
}
"""What a row without a value of the dimension says."""
PRESET_LABELS: Final = {
    CostPreset.THIS_MONTH: gettext_lazy("This month"),
    CostPreset.LAST_MONTH: gettext_lazy("Last month"),
    CostPreset.LAST_7_DAYS: gettext_lazy("Last 7 days"),
    CostPreset.LAST_30_DAYS: gettext_lazy("Last 30 days"),
}
NEXT: Final = {
    CostDimension.ORGANIZATION: CostDimension.PROJECT,
    CostDimension.PROJECT: CostDimension.OWNER,
    CostDimension.OWNER: CostDimension.PRICE_GROUP,
    CostDimension.COST_CENTER: CostDimension.PROJECT,
    CostDimension.SIZE: CostDimension.PRICE_GROUP,
    CostDimension.PRICE_GROUP: CostDimension.PROJECT,
    CostDimension.CLUSTER: CostDimension.ORGANIZATION,
}
"""What a group is divided by when it is opened."""
_DIMENSIONS: Final = [(one.value, label) for one, label in LABELS.items()]
Choices = Iterable[tuple[str, Any]]
"""Values and names, which may be translated when they are shown."""


@dataclass(frozen=True)
class CostChoices:
    """What the selects offer: values and names."""

    organizations: Choices
    projects: Choices
    clusters: Choices


def _select(
    label: "str | _StrPromise", choices: Choices, *, none: "str | _StrPromise" = ""
) -> forms.ChoiceField:
    made = [("", none), *choices] if none else list(choices)
    return forms.ChoiceField(
        label=label, choices=made, required=not none, widget=UnfoldAdminSelectWidget()
    )


def _text(label: "str | _StrPromise", *, example: str = "") -> forms.CharField:
    widget = UnfoldAdminTextInputWidget(attrs={"placeholder": example})
    return forms.CharField(label=label, required=False, max_length=150, widget=widget)


class CostForm(forms.Form):
    """Days, grouping and filters."""

    begin = forms.DateField(label=gettext_lazy("From"), widget=UnfoldAdminDateWidget())
    last = forms.DateField(label=gettext_lazy("To"), widget=UnfoldAdminDateWidget())
    group_by = _select(gettext_lazy("Group by"), _DIMENSIONS)
    then_by = _select(gettext_lazy("Then by"), _DIMENSIONS, none=gettext_lazy("nothing more"))

    def __init__(self, data: Mapping[str, Any], *, choices: CostChoices) -> None:
        """Take the choices of the selects."""
        super().__init__(data)
        self.fields |= {
            CostDimension.ORGANIZATION.value: _select(
                LABELS[CostDimension.ORGANIZATION], choices.organizations, none=gettext("all")
            ),
            CostDimension.PROJECT.value: _select(
                LABELS[CostDimension.PROJECT], choices.projects, none=gettext("all")
            ),
            CostDimension.OWNER.value: _text(
                LABELS[CostDimension.OWNER], example=gettext("user name")
            ),
            CostDimension.COST_CENTER.value: _text(LABELS[CostDimension.COST_CENTER]),
            CostDimension.SIZE.value: _select(
                LABELS[CostDimension.SIZE],
                [(one.value, one.value.capitalize()) for one in GPUSize],
                none=gettext("all"),
            ),
            CostDimension.PRICE_GROUP.value: _text(
                LABELS[CostDimension.PRICE_GROUP], example="H100/1g.10gb"
            ),
            CostDimension.CLUSTER.value: _select(
                LABELS[CostDimension.CLUSTER], choices.clusters, none=gettext("all")
            ),
        }

    def own_fields(self) -> list[forms.BoundField]:
        """Return the fields of days and grouping."""
        return [self[name] for name in self.base_fields]

    def filter_fields(self) -> list[forms.BoundField]:
        """Return the fields of filters."""
        return [self[one.value] for one in CostDimension]

    def is_filtered(self) -> bool:
        """Whether a filter is set, or wrong."""
        return any(field.value() or field.errors for field in self.filter_fields())

    def clean(self) -> dict[str, Any]:
        """Return the values with the `query`; what it refuses stands beside its field."""
        values: dict[str, Any] = super().clean() or {}
        if self.errors:
            return values
        group_by = [CostDimension(values["group_by"])]
        if values["then_by"] and values["then_by"] != values["group_by"]:
            group_by.append(CostDimension(values["then_by"]))
        try:
            values["query"] = CostQuery(
                first=values["begin"],
                end=min(values["last"], LAST_DAY) + DAY,
                group_by=tuple(group_by),
                filters={one: values[one.value] for one in CostDimension if values[one.value]},
            )
        except DomainError as error:
            self.add_error("last", refusal_sentence(error))
        return values


def address_of(values: Mapping[str, Any], *, preset: CostPreset | None) -> str:
    """Return the query of the page's address: its values without those that say nothing."""
    days = {"begin": values.get("begin"), "last": values.get("last")}
    chosen = {
        **({"range": preset.value} if preset else days),
        **{name: values.get(name) for name in ("group_by", "then_by", *CostDimension)},
    }
    return urlencode({name: value for name, value in chosen.items() if value})


def unpriced_address(query: CostQuery) -> str:
    """Return the page of use without a price in the days of a query."""
    chosen = {
        "resolved_at__isempty": "1",
        "window_start__gte": f"{query.first}T00:00:00+00:00",
        "window_start__lt": f"{query.end}T00:00:00+00:00",
    }
    return f"{reverse('admin:billing_accrualexception_changelist')}?{urlencode(chosen)}"
