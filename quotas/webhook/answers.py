"""Answer AdmissionReviews; a body that is not a review gets a 4xx.

A review is answered with HTTP 200 whatever the decision is, and also while the database is
unavailable: then the cluster's own policy decides. Only an unknown cluster, and one whose policy
this process has never read, are left to the webhook's failurePolicy. Independent of the HTTP
server.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from http import HTTPStatus
from typing import Protocol

import msgspec
import structlog
from django.conf import settings
from django.db import Error, connections
from django.utils import timezone

from quotas.domain.admission import denials
from quotas.domain.admission.review import NoReviewError, Review, read_review
from quotas.selectors.admission.facts import (
    AdmissionFacts,
    FactsCache,
    admission_facts,
    clusters_that_ask,
)
from quotas.webhook.decisions import AdmissionTerms, Decision, allowed, lets_in_unasked, refused
from quotas.webhook.figures import NANOSECONDS, count_answer
from quotas.webhook.guard import Guard, is_about_question
from quotas.webhook.pods import decide_pod
from quotas.webhook.workloads import decide_stamp, decide_workload

logger = structlog.get_logger(__name__)

FACTS = FactsCache(admission_facts, time.monotonic_ns)
ADMIT, STAMP, WARN = "admit", "stamp", "warn"


class Decide(Protocol):
    """The decision function of one webhook."""

    def __call__(
        self, review: Review, facts: AdmissionFacts, *, terms: AdmissionTerms, at: datetime
    ) -> Decision:
        """Return what is answered."""
        ...


@dataclass(frozen=True)
class WebhookResponse:
    """The HTTP response, JSON."""

    status: HTTPStatus
    body: bytes


def answer(endpoint: str, slug: str, body: bytes, *, begin: int | None = None) -> WebhookResponse:
    """Return the response of a webhook; may wait for the database.

    Args:
        endpoint: ADMIT, STAMP or WARN.
        slug: Of the calling cluster.
        body: Its review.
        begin: When the review arrived, in nanoseconds of `time.monotonic_ns`; None for now. A
            review whose time is over is answered as undecided.
    """
    begin = time.monotonic_ns() if begin is None else begin
    try:
        review = read_review(body)
    except NoReviewError as error:
        return no_review(error)
    decided = _decided(review, slug, _decide(endpoint), begin)
    if isinstance(decided, WebhookResponse):
        return decided
    return respond(decided, review, slug, endpoint, begin=begin)


def respond(
    decision: Decision, review: Review, slug: str, endpoint: str, *, begin: int
) -> WebhookResponse:
    """Return the response of a decision, and count it."""
    count_answer(slug, endpoint, decision.reason, nanoseconds=time.monotonic_ns() - begin)
    return json_answer(decision.review(review.uid))


def no_review(error: NoReviewError) -> WebhookResponse:
    """Return what is answered to what is no review."""
    return json_answer({"error": str(error)}, HTTPStatus.BAD_REQUEST)


def json_answer(body: object, status: HTTPStatus = HTTPStatus.OK) -> WebhookResponse:
    """Return an answer of JSON."""
    return WebhookResponse(status, msgspec.json.encode(body))


@lru_cache(maxsize=1)
def guard() -> Guard:
    """Return what keeps the questions of this process within their time."""
    return Guard(settings.ADMISSION_DEADLINE_SECONDS * NANOSECONDS, time.monotonic_ns)


def read_ahead() -> None:
    """Load the facts of every calling cluster.

    They hold the cluster's policy for an unavailable database: a process that has never read them
    would have to leave its pods to the webhook's failurePolicy.
    """
    try:
        for slug in clusters_that_ask():
            FACTS.facts(slug, at=timezone.now())
    except Error as error:
        logger.warning("admission.preload_failed", reason=type(error).__name__)
    finally:
        connections.close_all()


def terms() -> AdmissionTerms:
    """Return what the settings say."""
    return AdmissionTerms(
        ttl_seconds=settings.RESERVATION_TTL_SECONDS,
        unbound=settings.QUOTA_UNBOUND_NAMESPACES,
        burst_classes=frozenset(settings.BURST_PRIORITY_CLASSES),
        public_url=settings.PUBLIC_URL,
        deadline_milliseconds=settings.ADMISSION_DEADLINE_SECONDS * 1_000,
    )


def _undecided(slug: str, error: Error) -> Decision | WebhookResponse:
    """Return what is answered where the ledger did not decide.

    Args:
        slug: Of the calling cluster.
        error: Why not.
    """
    logger.warning("admission.decision_failed", cluster=slug, reason=type(error).__name__)
    facts = FACTS.last_known(slug)
    if facts is None:
        return json_answer({"error": "The ledger is away."}, HTTPStatus.SERVICE_UNAVAILABLE)
    if is_about_question(error):
        # A request that makes the database reject the query is admitted by no policy.
        return refused("unanswerable", denials.UNANSWERABLE).under(facts)
    is_let_in = lets_in_unasked(facts)
    message = denials.undecided(is_allowed=is_let_in)
    if is_let_in:
        return allowed("undecided_allowed", warnings=(message,))
    code = int(HTTPStatus.SERVICE_UNAVAILABLE)
    return refused("undecided_refused", message, code=code)


def _decide(endpoint: str) -> Decide:
    return {ADMIT: decide_pod, STAMP: decide_stamp, WARN: decide_workload}[endpoint]


def _decided(review: Review, slug: str, decide: Decide, begin: int) -> Decision | WebhookResponse:
    question = _question(review, slug, decide, timezone.now())
    try:
        return guard().ask(question, begin=begin) or json_answer(
            {"error": f"No active cluster is called {slug}."}, HTTPStatus.NOT_FOUND
        )
    except Error as error:
        return _undecided(slug, error)


def _question(
    review: Review, slug: str, decide: Decide, at: datetime
) -> Callable[[], Decision | None]:
    def question() -> Decision | None:
        facts = FACTS.facts(slug, at=at)
        return None if facts is None else decide(review, facts, terms=terms(), at=at)

    return question
