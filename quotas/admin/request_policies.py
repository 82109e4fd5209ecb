"""Admin pages of request policies: the deciders of requests, as text and as a form."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from django import forms
from django.contrib import admin
from django.db.models import Model
from django.forms.fields import InvalidJSONInput
from django.http import HttpRequest
from django.utils.translation import gettext, gettext_lazy, ngettext
from unfold.decorators import display
from unfold.widgets import UnfoldAdminTextareaWidget

from quotas.domain.requests.labels import band_text, steps_text
from quotas.models import RequestPolicy
from quotas.services.requests.policies import DEFAULTS, change_policy, make_policy
from tenants.admin.base import ServiceAdmin, ServiceForm
from tenants.domain.actors import Actor
from tenants.templatetags.texts import english

STEPS_EXAMPLE: Final = (
    '[{"level": "organization_admin"}, {"level": "finance", "units_from": {"large": 16}, '
    '"cost_from": "10000"}]'
)
UNITS_EXAMPLE: Final = '{"small": 4, "medium": 2}'


class DocumentField(forms.JSONField):
    """A JSON field with one row per line, and an error that names invalid JSON."""

    def __init__(self, *, example: str, rows: int, **options: Any) -> None:  # noqa: ANN401 - Django's.
        """Remember what a right one looks like."""
        super().__init__(widget=UnfoldAdminTextareaWidget(attrs={"rows": rows}), **options)
        self.example = example

    def to_python(self, value: Any) -> Any:  # noqa: ANN401 - Django's signature.
        """Return the document.

        Raises:
            ValidationError: It is none; the message says where, and what one looks like.
        """
        try:
            return super().to_python(value)
        except forms.ValidationError as error:
            raise forms.ValidationError(
                gettext("This is no JSON{fault}. Write it as in {example}").format(
                    fault=_place_of_fault(str(value)), example=self.example
                ),
                code="invalid",
            ) from error

    def prepare_value(self, value: Any) -> Any:  # noqa: ANN401 - Django's signature.
        """Return the document as text; what was no JSON stays as it was typed."""
        if isinstance(value, InvalidJSONInput):
            return value
        if not isinstance(value, list):
            return json.dumps(value, ensure_ascii=False)
        lines = ",\n".join(f"  {json.dumps(one, ensure_ascii=False)}" for one in value)
        return f"[\n{lines}\n]"


class PolicyForm(ServiceForm):
    """Deciders, escalation, and automatic approval."""

    steps = DocumentField(
        example=STEPS_EXAMPLE,
        rows=6,
        label=gettext_lazy("Who decides, in turn"),
        help_text=(
            "A list of 1 to 8 steps. Each has a level: project_lead, organization_admin, "
            "platform or finance. It takes part always, or where it has them only from "
            "units_from (units by size) or from cost_from (a cost a month, as text). A "
            f"request without a price counts as more than any cost. Example: {STEPS_EXAMPLE}"
        ),
    )
    automatic_units = DocumentField(
        example=UNITS_EXAMPLE,
        rows=2,
        required=False,
        label=gettext_lazy("Automatic units"),
        help_text=(
            "The largest requested total by size (small, medium, large) that is approved "
            "automatically; a missing size never is, and {} approves nothing. "
            f"Example: {UNITS_EXAMPLE}"
        ),
    )

    class Meta:
        labels = {
            "escalate_after_hours": "Escalates after hours",
            "expire_after_days": "Expires after days",
            "remind_days": "Reminds before an end, days",
        }
        help_texts = {
            "organization": "Empty is for every organization that has no policy of its own.",
            "currency": "Of every amount here, such as EUR; empty where there is none.",
            "automatic_cost": (
                "The largest cost a month that is approved automatically, if the units allow "
                "it too; empty where cost does not matter."
            ),
            "escalate_after_hours": "After that the next level decides instead; empty is never.",
            "expire_after_days": "After that an undecided request expires; nothing changes.",
            "remind_days": "So long before units end their requester is reminded to renew.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - Django's signature.
        """Begin with what holds without a policy."""
        super().__init__(*args, **kwargs)
        if self.instance._state.adding:  # noqa: SLF001 - Django's documented model state.
            self.initial.update({name: DEFAULTS[name] for name in ("steps", "automatic_units")})

    def clean_automatic_units(self) -> Any:  # noqa: ANN401 - Any JSON; the service refuses it.
        """Return the units; an empty field approves nothing."""
        units = self.cleaned_data["automatic_units"]
        return {} if units is None else units


@admin.register(RequestPolicy)
class RequestPolicyAdmin(ServiceAdmin):
    """Request policies."""

    form = PolicyForm
    view_capability = "quotas:request:read"
    write_capability = "quotas:limit:write"
    hint = (
        "The named levels decide one after another; a level with a threshold takes part from "
        "that size or cost on. Without a level or a policy, the organization's "
        "administrators decide."
    )
    add_fields = ("organization", *DEFAULTS)
    change_fields = tuple(DEFAULTS)
    list_display = (
        "__str__",
        "steps_text",
        "band_text",
        "escalation_text",
        "expiry_text",
    )
    list_select_related = ("organization",)
    autocomplete_fields = ("organization",)
    shown_fields = (
        "organization",
        "steps_text",
        "band_text",
        "escalation_text",
        "expiry_text",
        "reminder_text",
    )
    """Fields for users who may only read it."""

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> list[str]:
        """Return the form's fields, or a policy as text."""
        if obj is None:
            return list(self.add_fields)
        may_change = self.has_change_permission(request, obj)
        return list(self.add_fields if may_change else self.shown_fields)

    def get_readonly_fields(
        self, request: HttpRequest, obj: Model | None = None
    ) -> tuple[str, ...]:
        """Return the read-only fields."""
        return (*super().get_readonly_fields(request, obj), *self.shown_fields[1:])

    @display(description="who decides, in turn")
    def steps_text(self, policy: RequestPolicy) -> str:
        """Return the steps as text."""
        return english(steps_text(policy.steps, currency=policy.currency))

    @display(description="approved automatically")
    def band_text(self, policy: RequestPolicy) -> str:
        """Return the band of automatic approval as text."""
        return english(
            band_text(policy.automatic_units, policy.automatic_cost, currency=policy.currency)
        )

    @display(description="escalates", ordering="escalate_after_hours")
    def escalation_text(self, policy: RequestPolicy) -> str:
        """Return when the level above takes over."""
        hours = policy.escalate_after_hours
        if hours is None:
            return gettext("never")
        return ngettext("after {count} hour", "after {count} hours", hours).format(count=hours)

    @display(description="expires", ordering="expire_after_days")
    def expiry_text(self, policy: RequestPolicy) -> str:
        """Return when an undecided request ends."""
        days = policy.expire_after_days
        return ngettext("after {count} day", "after {count} days", days).format(count=days)

    @display(description="reminds")
    def reminder_text(self, policy: RequestPolicy) -> str:
        """Return when a holder is reminded to renew."""
        days = policy.remind_days
        return ngettext(
            "{count} day before units end", "{count} days before units end", days
        ).format(count=days)

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> RequestPolicy:
        """Make a policy."""
        wanted = dict(fields)
        organization = wanted.pop("organization")
        return make_policy(organization=organization, fields=wanted, actor=actor, at=at)

    def change(
        self, row: RequestPolicy, changes: Mapping[str, Any], *, actor: Actor, at: datetime
    ) -> RequestPolicy:
        """Change a policy."""
        return change_policy(policy=row, changes=changes, actor=actor, at=at)


def _place_of_fault(text: str) -> str:
    """Return where a text stops being JSON, such as " (line 2, column 5)"."""
    try:
        json.loads(text)
    except json.JSONDecodeError as fault:
        return gettext(": line {line}, column {column}, {fault}").format(
            line=fault.lineno,
            column=fault.colno,
            fault=english(f"{fault.msg[0].lower()}{fault.msg[1:]}"),
        )
    return ""
