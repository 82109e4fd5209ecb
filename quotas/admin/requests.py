"""Admin pages of quota requests: the list, and the page on which one is decided."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest
from django.http.response import HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop
from django.views.decorators.http import require_POST
from unfold.decorators import display

from quotas.access import READ_REQUEST, access_request
from quotas.adapters import cost_estimator
from quotas.domain.requests.labels import action_text, money_text, price_text
from quotas.models import QuotaRequest, RequestState
from quotas.protocols.costs import CostEstimate
from quotas.selectors.requests import Standing, standing_of
from quotas.services.requests.asking import comment_request, may_comment
from quotas.services.requests.deciding import approve_request, may_decide, reject_request
from quotas.services.requests.granting import is_dated
from quotas.services.requests.news import Allowed, text_of
from quotas.services.requests.preview import problems_in_the_way
from quotas.services.requests.valuation import CostToday, cost_today
from tenants.admin.base import LedgerAdmin, actor_of_request
from tenants.domain.actors import Actor
from tenants.domain.errors import DomainError
from tenants.selectors.audit import AuditFact, history_of
from tenants.templatetags.texts import english, figure, value_text

NOT_SET: Final = gettext_noop("no number is set here, the level above decides")
UNCOMPARED: Final = gettext_noop("not comparable")


@dataclass(frozen=True)
class CostRow:
    """One line of the cost table as text; `units` and `price` are "" where they do not apply."""

    what: str
    units: str
    price: str
    full: str
    last: str
    is_total: bool = False


@dataclass(frozen=True)
class HistoryRow:
    """One event as text."""

    at: datetime
    who: str
    action: str


def request_page(shown: QuotaRequest, *, actor: Actor, at: datetime) -> dict[str, Any]:
    """Return what the page of a request shows to the signed-in person.

    Raises:
        NotFoundError: It does not exist for them.
        ForbiddenError: They may not read it.
    """
    found = access_request(actor, shown.pk, READ_REQUEST)
    is_open = found.state == RequestState.SUBMITTED
    today = _cost_today(found, at=at) if is_open else None
    words = text_of(found)
    standing = standing_of(found, at=at, burst_classes=settings.BURST_PRIORITY_CLASSES)
    return {
        "asked": found,
        "title": gettext("{total} for {holder}").format(total=words.total, holder=words.holder),
        "sentence": _sentence(found, standing),
        "standing": standing,
        "in_the_way": problems_in_the_way(request=found, actor=actor, at=at) if is_open else (),
        "is_open": is_open,
        "may_decide": is_open and may_decide(found, actor=actor),
        "may_comment": may_comment(found, actor=actor),
        "costs": list(_cost_rows(found, today)),
        "cost_note": english(found.cost.get("note", "") if today is None else today.total.note),
        "history": [_history_row(fact) for fact in _history(found)],
    }


def _sentence(request: QuotaRequest, standing: Standing) -> str:
    """Say what would become of it, or what became of it.

    An approval refuses a number that is not in force any more, so what an approved request was
    asked beside is what held when it was approved.
    """
    words = text_of(request)
    if request.state not in {RequestState.SUBMITTED, RequestState.APPROVED}:
        return words.sentence_in_vain
    speaks_of_burst = request.burst_units is not None
    now = Allowed(
        standing.limit_units if is_dated(request) else standing.set_units,
        standing.burst_units if speaks_of_burst else None,
        is_unlimited=standing.is_set and standing.set_units is None,
    )
    if request.state == RequestState.SUBMITTED or request.decided_at is None:
        return words.would_be(now=now)
    before = Allowed(
        request.units_before,
        request.burst_before if speaks_of_burst else None,
        is_unlimited=request.is_unlimited_before,
    )
    return words.was_approved(before=before, now=now, decided_at=request.decided_at)


def _cost_today(request: QuotaRequest, *, at: datetime) -> CostToday:
    estimator = cost_estimator(settings.COST_ESTIMATOR)
    return cost_today(request, estimator=estimator, at=at)


def _cost_rows(request: QuotaRequest, today: CostToday | None) -> Iterator[CostRow]:
    """Return today's prices of an open request, and the estimate made with it."""
    size = request.get_size_display()
    if today is not None:
        yield from _rows_today(size, today)
        yield from _rows_beside(request, today)
    cost = request.cost
    if cost:
        yield CostRow(
            what=gettext("{size}, as shown when it was requested").format(size=size),
            units=str(request.requested_units + (request.burst_units or 0)),
            price=_price(cost.get("price_group", "")),
            full=_money(cost.get("at_full_use"), cost.get("currency", "")),
            last=_money(cost.get("at_last_use"), cost.get("currency", "")),
            is_total=today is None,
        )


def _rows_today(size: str, today: CostToday) -> Iterator[CostRow]:
    for lot in today.lots:
        kind = gettext("{size}, burst").format(size=size) if lot.is_burst else size
        yield _row(kind, str(lot.units), lot.cost)
    in_all = gettext("Requested in all, at today's prices")
    yield _row(in_all, str(today.units), today.total, is_total=True)


def _rows_beside(request: QuotaRequest, today: CostToday) -> Iterator[CostRow]:
    """Give what holds without a request, and how much more it wants; no number where none is."""
    if today.before is None:
        held = gettext("unlimited") if request.is_unlimited_before else gettext(NOT_SET)
        what = gettext("In force without it: {held}").format(held=held)
        uncompared = gettext(UNCOMPARED)
        yield CostRow(what, units="", price="", full=uncompared, last=uncompared)
    else:
        in_force = gettext("In force without it, at today's prices")
        yield _row(in_force, str(today.units_before), today.before)
    if today.more is not None:
        currency = today.more.currency
        yield CostRow(
            what=gettext("More than in force"),
            units=f"{today.more_units:+d}",
            price="",
            full=_money(today.more.at_full_use, currency, is_change=True),
            last=_money(today.more.at_last_use, currency, is_change=True),
            is_total=True,
        )


def _row(what: str, units: str, cost: CostEstimate, *, is_total: bool = False) -> CostRow:
    return CostRow(
        what=what,
        units=units,
        price="" if is_total else _price(cost.price_group),
        full=_money(cost.at_full_use, cost.currency),
        last=_money(cost.at_last_use, cost.currency),
        is_total=is_total,
    )


def _money(amount: Decimal | str | None, currency: str, *, is_change: bool = False) -> str:
    if amount is None:
        return gettext("unknown")
    return figure(money_text(amount, currency, is_change=is_change))


def _price(price_group: str) -> str:
    """Return whose price was used; that for any group has a name of its own."""
    return " + ".join(gettext(price_text(part)) for part in price_group.split(" and "))


def _history(request: QuotaRequest) -> list[AuditFact]:
    return history_of(object_kind="quota_request", object_id=request.pk)


def _history_row(fact: AuditFact) -> HistoryRow:
    return HistoryRow(fact.occurred_at, fact.actor_label, gettext(action_text(fact.action)))


DECISIONS: Final[Mapping[str, Callable[..., object]]] = {
    "approve": lambda text, **who: approve_request(note=text, **who),
    "reject": lambda text, **who: reject_request(note=text, **who),
    "comment": lambda text, **who: comment_request(text=text, **who),
}


@admin.register(QuotaRequest)
class QuotaRequestAdmin(LedgerAdmin):
    """What tenant leads ask for."""

    view_capability = "quotas:request:read"
    write_capability = "quotas:request:decide"
    hint = (
        "Open a request to see its effect, or choose several and decide them here. A request "
        "names a total, never the difference; you cannot decide your own."
    )
    change_form_outer_before_template = "admin/quotas/quotarequest/decide.html"
    list_display = (
        "created_at",
        "organization",
        "project",
        "user",
        "size",
        "units_before",
        "requested_units",
        "state_label",
        "requested_by",
        "decided_by",
    )
    list_filter = ("state", "size", "organization")
    list_select_related = ("organization", "project", "user", "requested_by", "decided_by")
    search_fields = ("project__name", "project__slug", "requested_by__username", "justification")
    day_column = "created_at"
    actions = ("approve_requests", "reject_requests")

    @display(
        description="state",
        ordering="state",
        label={
            "submitted": "warning",
            "approved": "success",
            "rejected": "danger",
            "cancelled": "info",
            "expired": "info",
        },
    )
    def state_label(self, request: QuotaRequest) -> tuple[str, str]:
        """Return the state, coloured."""
        return str(request.state), value_text(request.state)

    def get_urls(self) -> list[URLPattern]:
        """Return the pages and the buttons of a request."""
        button = path(
            "<uuid:pk>/<str:verb>/",
            self.admin_site.admin_view(require_POST(self.decide_view)),
            name="quotas_quotarequest_decide",
        )
        made: list[URLPattern] = super().get_urls()
        return [*made[:-1], button, made[-1]]

    def decide_view(self, request: HttpRequest, pk: object, verb: str) -> HttpResponse:
        """Run a button's action as the signed-in user, and show the request again."""
        decide = DECISIONS.get(verb)
        if decide is None or not self.has_view_permission(request):
            raise Http404
        try:
            decide(
                request.POST.get("text", ""),
                request_id=pk,
                actor=actor_of_request(request),
                at=timezone.now(),
            )
        except DomainError as error:
            self.report_refusal(request, error)
        else:
            self.message_user(request, gettext("Done."), messages.SUCCESS)
        return HttpResponseRedirect(reverse("admin:quotas_quotarequest_change", args=[pk]))

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Return the page of a request, with everything that is needed to decide it."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        shown = self.get_object(request, object_id)
        actor, at = actor_of_request(request), timezone.now()
        context = {} if shown is None else request_page(shown, actor=actor, at=at)
        answer: HttpResponse = super().change_view(
            request, object_id, form_url, {**context, **(extra_context or {})}
        )
        return answer

    def get_fieldsets(
        self,
        request: HttpRequest,  # noqa: ARG002 - Django's signature.
        obj: QuotaRequest | None = None,  # noqa: ARG002 - As above.
    ) -> list[Any]:
        """Return none: the page shows every field as text."""
        return []

    @admin.action(description="Approve", permissions=["write"])
    def approve_requests(self, request: HttpRequest, rows: QuerySet[QuotaRequest]) -> None:
        """Approve the open step of the chosen requests."""
        self.for_each(
            request,
            rows,
            lambda row, actor, at: approve_request(request_id=row.pk, actor=actor, at=at),
            done=gettext_noop("is approved"),
        )

    @admin.action(description="Reject", permissions=["write"])
    def reject_requests(self, request: HttpRequest, rows: QuerySet[QuotaRequest]) -> None:
        """Reject the chosen requests."""
        self.for_each(
            request,
            rows,
            lambda row, actor, at: reject_request(request_id=row.pk, actor=actor, at=at),
            done=gettext_noop("is rejected"),
        )
