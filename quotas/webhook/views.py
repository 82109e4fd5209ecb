"""The views: a review comes in, a review goes out; what is no review gets a 4xx.

No middleware runs here. A question is answered with HTTP 200 whatever the decision is, and also
while the ledger is away, where the cluster's own policy decides. Only a cluster nobody knows, and
one whose policy this process has never read, are left to the webhook's failurePolicy.
"""

import json
import time
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from http import HTTPStatus
from typing import Protocol

import structlog
from django.conf import settings
from django.db import Error, OperationalError, connections
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from quotas.domain import denials
from quotas.domain.admission_review import (
    REVIEW_BYTES_MAX,
    NoReviewError,
    Review,
    read_review,
)
from quotas.selectors.admission_facts import AdmissionFacts, FactsCache, admission_facts
from quotas.webhook.decisions import Decision, Terms, allowed, lets_in_unasked, refused
from quotas.webhook.figures import ANSWERS, SECONDS
from quotas.webhook.guard import Guard, is_about_question
from quotas.webhook.owners import decide_stamp
from quotas.webhook.pods import decide_pod
from quotas.webhook.workloads import decide_workload

logger = structlog.get_logger(__name__)

JSON_TYPE = "application/json"
FACTS = FactsCache(admission_facts, time.monotonic_ns)


class Decide(Protocol):
    """What decides behind one door."""

    def __call__(
        self, review: Review, facts: AdmissionFacts, *, terms: Terms, at: datetime
    ) -> Decision:
        """Return what is answered."""
        ...


@require_POST
def admit_pods(request: HttpRequest, slug: str) -> HttpResponse:
    """Answer whether a pod or a resource claim may be created."""
    return _answer(request, slug, "admit", decide_pod)


@require_POST
def stamp_owners(request: HttpRequest, slug: str) -> HttpResponse:
    """Answer with the patch that names the owner."""
    return _answer(request, slug, "stamp", decide_stamp)


@require_POST
def warn_workloads(request: HttpRequest, slug: str) -> HttpResponse:
    """Answer what stands against a workload."""
    return _answer(request, slug, "warn", decide_workload)


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:  # noqa: ARG001 - Django's own signature.
    """Answer that the process lives."""
    return _json({"status": "alive"})


@require_safe
def readyz(request: HttpRequest) -> HttpResponse:  # noqa: ARG001 - Django's own signature.
    """Answer 200 when the ledger can be asked."""
    try:
        guard().ask(_reach)
    except Error as error:
        logger.warning("admission.not_ready", reason=type(error).__name__)
        return _json({"status": "not_ready"}, HTTPStatus.SERVICE_UNAVAILABLE)
    return _json({"status": "ready"})


def _reach() -> None:
    """Ask the ledger for nothing.

    Raises:
        django.db.Error: It does not answer.
    """
    wrapper = connections["default"]
    wrapper.ensure_connection()
    if not wrapper.is_usable():
        raise OperationalError("The connection is dead.")


@lru_cache(maxsize=1)
def guard() -> Guard:
    """Return what keeps the questions of this process within their time."""
    return Guard(settings.ADMISSION_DEADLINE_SECONDS * 1_000_000_000, time.monotonic_ns)


def terms() -> Terms:
    """Return what the settings say."""
    return Terms(
        ttl_seconds=settings.RESERVATION_TTL_SECONDS,
        unbound=settings.QUOTA_UNBOUND_NAMESPACES,
        burst_classes=frozenset(settings.BURST_PRIORITY_CLASSES),
        public_url=settings.PUBLIC_URL,
    )


def _answer(request: HttpRequest, slug: str, door: str, decide: Decide) -> HttpResponse:
    begin = time.perf_counter()
    try:
        review = read_review(_body(request))
    except NoReviewError as error:
        return _json({"error": str(error)}, HTTPStatus.BAD_REQUEST)
    decision = _decision(review, slug, decide)
    if isinstance(decision, HttpResponse):
        return decision
    ANSWERS.labels(slug, door, decision.reason).inc()
    SECONDS.labels(door).observe(time.perf_counter() - begin)
    return _json(decision.review(review.uid))


def _body(request: HttpRequest) -> bytes:
    length = request.META.get("CONTENT_LENGTH") or ""
    if not length.isdigit() or int(length) > REVIEW_BYTES_MAX:
        raise NoReviewError("The review has no length, or is too large.")
    return request.read(int(length))


def _decision(review: Review, slug: str, decide: Decide) -> Decision | HttpResponse:
    at = timezone.now()
    question = _question(review, slug, decide, at)
    try:
        return guard().ask(question) or _json(
            {"error": f"No active cluster is called {slug}."}, HTTPStatus.NOT_FOUND
        )
    except Error as error:
        logger.warning("admission.undecided", cluster=slug, reason=type(error).__name__)
        facts = FACTS.last_known(slug)
        is_its_own = is_about_question(error)
    if facts is None:
        return _json({"error": "The ledger is away."}, HTTPStatus.SERVICE_UNAVAILABLE)
    if is_its_own:
        # Whoever can ask so that the ledger refuses the question is let in by no policy.
        return refused("unanswerable", denials.UNANSWERABLE).under(facts)
    return _undecided(facts)


def _question(
    review: Review, slug: str, decide: Decide, at: datetime
) -> Callable[[], Decision | None]:
    def question() -> Decision | None:
        facts = FACTS.facts(slug, at=at)
        return None if facts is None else decide(review, facts, terms=terms(), at=at)

    return question


def _undecided(facts: AdmissionFacts) -> Decision:
    is_let_in = lets_in_unasked(facts)
    message = denials.undecided(is_allowed=is_let_in)
    if is_let_in:
        return allowed("undecided_allowed", warnings=(message,))
    code = int(HTTPStatus.SERVICE_UNAVAILABLE)
    return refused("undecided_refused", message, code=code)


def _json(body: object, status: HTTPStatus = HTTPStatus.OK) -> HttpResponse:
    told = json.dumps(body).encode()
    # No middleware tells the length here, and without it an answer goes out in chunks.
    headers = {"Content-Length": str(len(told))}
    return HttpResponse(told, status=status, content_type=JSON_TYPE, headers=headers)
