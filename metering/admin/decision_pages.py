"""The page that shows what a decision on hours would do, and makes it once it is confirmed."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop

from metering.domain.catalogue.sizing import UnsizedCause
from metering.domain.collection.hour_decisions import HourResult
from metering.domain.collection.windows import GapPolicy
from metering.domain.figures import unit_hours_text
from metering.models import MeteringWindow
from metering.selectors.collection.hour_decisions import DecisionPreview, preview_decision
from metering.services.collection.hour_decisions import decide_windows
from tenants.admin.base import LedgerAdmin, actor_of_request
from tenants.admin.notes import NoteForm, note_of
from tenants.admin.refusals import refusal_sentence
from tenants.domain.errors import DomainError
from tenants.templatetags.texts import figure, value_text

DECISION_LABELS: Final[Mapping[GapPolicy, str]] = {
    GapPolicy.ACCEPT: gettext_noop("Accept what was observed"),
    GapPolicy.LAST_KNOWN: gettext_noop("Bill as last known"),
    GapPolicy.HOLD: gettext_noop("Hold the hours"),
    GapPolicy.WAIVE: gettext_noop("Waive the hours"),
}
RESULT_LABELS: Final[Mapping[HourResult, str]] = {
    HourResult.DECIDED: gettext_noop("decided"),
    HourResult.ALREADY_DECIDED: gettext_noop("decided alike before"),
    HourResult.SETTLED: gettext_noop("sealed or about to be"),
    HourResult.NOT_OVERDUE: gettext_noop("not yet a day old, tried again by themselves"),
    HourResult.METERED: gettext_noop(
        "metered, and nothing to be estimated: accept, hold or waive them"
    ),
    HourResult.END_UNOBSERVED: gettext_noop("cannot be accepted: nothing was observed after them"),
    HourResult.CHANGED: gettext_noop("changed since they were shown, and left alone"),
}


def decision_page(
    page: LedgerAdmin,
    request: HttpRequest,
    rows: QuerySet[MeteringWindow],
    *,
    decision: GapPolicy,
) -> HttpResponse | None:
    """Show what a decision would do to hours; make it once that is confirmed.

    Args:
        page: The admin page of windows.
        request: A look, or the press of the button that confirms.
        rows: The chosen hours.
        decision: What becomes of them.

    Returns:
        The page, or None when the decision was made.
    """
    actor, at = actor_of_request(request), timezone.now()
    if "confirm" in request.POST:
        try:
            decided = decide_windows(
                window_ids=list(rows.values_list("pk", flat=True)),
                decision=decision,
                note=note_of(request),
                shown_digest=request.POST.get("shown_digest", ""),
                actor=actor,
                at=at,
            )
        except DomainError as error:
            page.message_user(request, refusal_sentence(error), messages.ERROR)
        else:
            for result, count in sorted(Counter(hour.result for hour in decided).items()):
                text = gettext("Hours {result}: {count}.").format(
                    result=gettext(RESULT_LABELS[result]), count=count
                )
                page.message_user(request, text, messages.SUCCESS)
            return None
    preview = preview_decision(rows, decision=decision, at=at)
    context = {
        **page.page_context(request, title=gettext(DECISION_LABELS[decision])),
        "preview": preview,
        "effect": gettext(preview.effect),
        "causes": [(value_text(kind), count) for kind, count in preview.causes.items()],
        "figures": _figures(preview),
        "others": [
            (gettext(RESULT_LABELS[result]), count)
            for result, count in sorted(preview.results.items())
            if result is not HourResult.DECIDED
        ],
        "fields": _fields_of(request, digest=preview.digest),
        "note": NoteForm(initial={"note": note_of(request)})["note"],
    }
    return TemplateResponse(request, "admin/metering/meteringwindow/decision.html", context)


def _figures(preview: DecisionPreview) -> list[tuple[str, str]]:
    """Return what accepting the hours bills of each size, and what it keeps in exceptions."""
    if not preview.decided:
        return []
    rows = [
        (
            gettext("Billed if accepted: {size}").format(size=size),
            gettext("{quantity} unit-hours").format(quantity=figure(unit_hours_text(value))),
        )
        for size, value in preview.billed_unit_seconds.items()
    ] or [(gettext("Billed if accepted"), gettext("nothing"))]
    for cause, value in preview.held_unit_seconds.items():
        is_other_unit = cause == UnsizedCause.UNKNOWN_RESOURCE
        quantity = gettext("{quantity} unit-hours")
        if is_other_unit:
            quantity = gettext("{quantity} in hours of its own units, not in GPUs")
        name = gettext("Kept in exceptions: {cause}").format(cause=value_text(cause))
        rows.append((name, quantity.format(quantity=figure(unit_hours_text(value)))))
    if preview.unobserved:
        rows.append((gettext("Hours without a scrape"), str(preview.unobserved)))
    if preview.unknown:
        rows.append((gettext("Hours of which nothing is known yet"), str(preview.unknown)))
    return rows


def _fields_of(request: HttpRequest, *, digest: str) -> list[tuple[str, str]]:
    """Return what choosing the same button for the same rows again sends, with the digest."""
    return [
        *(
            (name, request.POST.get(name, ""))
            for name in ("action", "select_across", "index")
            if name in request.POST
        ),
        *(("_selected_action", key) for key in request.POST.getlist("_selected_action")),
        ("shown_digest", digest),
    ]
