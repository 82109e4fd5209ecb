"""Admin pages of the catalogue: its versions, and the page on which the next one is written."""

import json
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest
from django.http.response import HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy
from unfold.decorators import action
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from metering.domain.catalogue.editing import SizingDifference
from metering.domain.catalogue.sizing import rule_to_json
from metering.domain.figures import unit_hours_text
from metering.models import CatalogueVersion
from metering.services.catalogue import add_catalogue_version, ensure_catalogue, preview_catalogue
from tenants.admin.base import LedgerAdmin, actor_of_request
from tenants.admin.refusals import refusal_sentence
from tenants.domain.errors import DomainError
from tenants.templatetags.texts import english, figure

NOTE_LENGTH_MAX = 2_000


class RulesField(forms.JSONField):
    """Rules as JSON, one a line."""

    def prepare_value(self, value: Any) -> Any:  # noqa: ANN401 - Django's signature.
        """Return the text to be edited: what was typed, or the rules line by line."""
        if not isinstance(value, list):
            return super().prepare_value(value)
        lines = ",\n".join(f" {json.dumps(rule)}" for rule in value)
        return f"[\n{lines}\n]"


class RulesForm(forms.Form):
    """The rules of the next version, as JSON, and why."""

    rules = RulesField(
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 20, "class": "rules"}),
        label=gettext_lazy("Rules"),
        help_text=gettext_lazy("First match first. A size of null refuses what the rule matches."),
    )
    note = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=NOTE_LENGTH_MAX,
        required=False,
        widget=UnfoldAdminTextInputWidget,
        help_text=gettext_lazy("Required; it is written to the audit trail."),
    )
    based_on = forms.IntegerField(min_value=1, widget=forms.HiddenInput)


@admin.register(CatalogueVersion)
class CatalogueVersionAdmin(LedgerAdmin):
    """The rules that say which size a GPU resource is."""

    view_capability = "metering:catalogue:read"
    write_capability = "metering:catalogue:write"
    hint = (
        "The newest version is in force; a version is never changed. Editing shows what would "
        "change before it stores the next one."
    )
    day_column = "created_at"
    list_display = ("version", "note", "created_by", "created_at", "digest")
    actions_list = ("edit",)

    @action(description="Edit", url_path="edit", permissions=["write"], icon="edit")
    def edit(self, request: HttpRequest) -> HttpResponse:
        """Show the rules in force as a form; look at what changed ones would do, and store them."""
        initial = self._in_force(request, begun=request.GET.get("resource", ""))
        form = RulesForm(request.POST or None, initial=initial)
        found: tuple[SizingDifference, ...] | None = None
        if request.method == "POST" and form.is_valid():
            try:
                if "_store" in request.POST:
                    return self._store(request, form)
                found = preview_catalogue(
                    rules=form.cleaned_data["rules"],
                    actor=actor_of_request(request),
                    at=timezone.now(),
                )
            except DomainError as error:
                _tell(form, error)
        context = {
            **self.page_context(request, title=gettext("Edit the catalogue")),
            "form": form,
            "is_looked_at": found is not None,
            "differences": [_row(one) for one in found or ()],
        }
        return TemplateResponse(request, "admin/metering/catalogueversion/edit.html", context)

    def _in_force(self, request: HttpRequest, *, begun: str) -> dict[str, Any]:
        """Return the rules in force, with one begun for a resource that none knows."""
        catalogue = ensure_catalogue(actor=actor_of_request(request), at=timezone.now())
        first = [{"size": None, "resources": [begun], "products": ["*"]}] if begun else []
        return {
            "rules": [*first, *(_short(rule_to_json(rule)) for rule in catalogue.rules)],
            "based_on": catalogue.version,
        }

    def _store(self, request: HttpRequest, form: RulesForm) -> HttpResponse:
        stored = add_catalogue_version(
            **form.cleaned_data, actor=actor_of_request(request), at=timezone.now()
        )
        done = gettext("{version} is in force.").format(version=stored)
        self.message_user(request, done, messages.SUCCESS)
        return HttpResponseRedirect(reverse("admin:metering_catalogueversion_changelist"))


def _short(rule: dict[str, Any]) -> dict[str, Any]:
    """Return a rule without the conditions that hold for everything."""
    return {name: value for name, value in rule.items() if value or name == "size"}


def _tell(form: RulesForm, error: DomainError) -> None:
    """Put a refusal beside its field, every problem with where it is."""
    place = error.field if error.field in form.fields else None
    form.add_error(place, refusal_sentence(error))
    for problem in error.problems:
        form.add_error("rules", english(f"{problem.field}: {problem.message}"))


def _row(one: SizingDifference) -> dict[str, Any]:
    return {
        "hardware": gettext("{what} on {cluster}").format(
            what=one.resource, cluster=one.product or gettext("an unlabelled node")
        ),
        "before": one.before,
        "after": one.after,
        "is_refused": one.is_refused,
        "open_units": one.open_units,
        "used": figure(unit_hours_text(one.unit_seconds)),
    }
