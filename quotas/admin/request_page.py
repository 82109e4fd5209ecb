"""The page of one quota request in words: what is asked, what it costs, and what was done to it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.conf import settings

from quotas.access import READ_REQUEST, access_request
from quotas.adapters import cost_estimator
from quotas.domain.request_words import Allowed, deed_words, money_words, price_words
from quotas.models import QuotaRequest, RequestState
from quotas.protocols.costs import CostEstimate
from quotas.selectors.request_standing import Standing, standing_of
from quotas.services.request_comments import may_comment
from quotas.services.request_costs import CostToday, cost_today
from quotas.services.request_granting import is_dated
from quotas.services.request_news import words_of
from quotas.services.request_preview import problems_in_the_way
from quotas.services.request_steps import may_decide
from tenants.domain.actors import Actor
from tenants.selectors.audit import AuditFact, history_of

NOT_SET: Final = "no number is set here, the level above decides"
UNCOMPARED: Final = "not comparable"


@dataclass(frozen=True)
class CostRow:
    """One line of the cost table in words; `units` and `price` are "" where they say nothing."""

    what: str
    units: str
    price: str
    full: str
    last: str
    is_total: bool = False


@dataclass(frozen=True)
class HistoryRow:
    """One deed in words."""

    at: datetime
    who: str
    deed: str


def request_page(shown: QuotaRequest, *, actor: Actor, at: datetime) -> dict[str, Any]:
    """Return what the page of a request shows to the signed-in person.

    Raises:
        NotFoundError: It does not exist for them.
        ForbiddenError: They may not read it.
    """
    found = access_request(actor, shown.pk, READ_REQUEST)
    is_open = found.state == RequestState.SUBMITTED
    today = _cost_today(found, at=at) if is_open else None
    words = words_of(found)
    standing = standing_of(found, at=at, burst_classes=settings.BURST_PRIORITY_CLASSES)
    return {
        "asked": found,
        "title": f"{words.total} for {words.holder}",
        "sentence": _sentence(found, standing),
        "standing": standing,
        "in_the_way": problems_in_the_way(request=found, actor=actor, at=at) if is_open else (),
        "is_open": is_open,
        "may_decide": is_open and may_decide(found, actor=actor),
        "may_comment": may_comment(found, actor=actor),
        "costs": list(_cost_rows(found, today)),
        "cost_note": found.cost.get("note", "") if today is None else today.total.note,
        "history": [_history_row(fact) for fact in _history(found)],
    }


def _sentence(request: QuotaRequest, standing: Standing) -> str:
    """Say what would become of it, or what became of it.

    An approval refuses a number that is not in force any more, so what an approved request was
    asked beside is what held when it was approved.
    """
    words = words_of(request)
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
    """Give today's prices of an open request, and what was told when it was asked."""
    size = request.get_size_display()
    if today is not None:
        yield from _rows_today(size, today)
        yield from _rows_beside(request, today)
    told = request.cost
    if told:
        yield CostRow(
            what=f"{size}, as told when it was asked",
            units=str(request.requested_units + (request.burst_units or 0)),
            price=price_words(told.get("price_group", "")),
            full=money_words(told.get("at_full_use"), told.get("currency", "")),
            last=money_words(told.get("at_last_use"), told.get("currency", "")),
            is_total=today is None,
        )


def _rows_today(size: str, today: CostToday) -> Iterator[CostRow]:
    for lot in today.lots:
        kind = f"{size}, burst" if lot.is_burst else size
        yield _row(kind, str(lot.units), lot.cost)
    yield _row("Wanted in all, at today's prices", str(today.units), today.total, is_total=True)


def _rows_beside(request: QuotaRequest, today: CostToday) -> Iterator[CostRow]:
    """Give what holds without a request, and how much more it wants; no number where none is."""
    if today.before is None:
        held = "unlimited" if request.is_unlimited_before else NOT_SET
        what = f"In force without it: {held}"
        yield CostRow(what, units="", price="", full=UNCOMPARED, last=UNCOMPARED)
    else:
        yield _row("In force without it, at today's prices", str(today.units_before), today.before)
    if today.more is not None:
        currency = today.more.currency
        yield CostRow(
            what="More than in force",
            units=f"{today.more_units:+d}",
            price="",
            full=money_words(today.more.at_full_use, currency, is_change=True),
            last=money_words(today.more.at_last_use, currency, is_change=True),
            is_total=True,
        )


def _row(what: str, units: str, cost: CostEstimate, *, is_total: bool = False) -> CostRow:
    return CostRow(
        what=what,
        units=units,
        price="" if is_total else price_words(cost.price_group),
        full=money_words(cost.at_full_use, cost.currency),
        last=money_words(cost.at_last_use, cost.currency),
        is_total=is_total,
    )


def _history(request: QuotaRequest) -> list[AuditFact]:
    return history_of(object_kind="quota_request", object_id=request.pk)


def _history_row(fact: AuditFact) -> HistoryRow:
    return HistoryRow(fact.occurred_at, fact.actor_label, deed_words(fact.action))
