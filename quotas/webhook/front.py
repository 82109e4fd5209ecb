"""Front of the webhooks: decide pods on the event loop, and everything that may block in a thread.

A review is parsed, checked with cached facts and decided in a batch with other requests, without a
thread (docs/adr/0027). What a batch leaves undecided is decided again in a thread from the start:
denials of a batch of several, reviews without cached facts, and all reviews while the database is
unavailable.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial

from django.conf import settings
from django.db import Error
from django.utils import timezone

from quotas.domain.admission.review import NoReviewError, read_review
from quotas.selectors.admission.facts import AdmissionFacts
from quotas.services.admission.admission import is_too_large, question_json
from quotas.webhook import answers
from quotas.webhook.answers import ADMIT, FACTS, WebhookResponse
from quotas.webhook.claim_owners import WithPod
from quotas.webhook.decisions import AdmissionTerms, Decision
from quotas.webhook.figures import NANOSECONDS
from quotas.webhook.pods import Weighed, weigh_pod
from quotas.webhook.together import SHARE_OF_DEADLINE, Together


class AdmissionFront:
    """Answers the webhooks of one process.

    Args:
        together: Decides requests in batches.
        threads: Pool for reviews that may block.
        terms: From the settings.
    """

    def __init__(self, together: Together, threads: Executor, terms: AdmissionTerms) -> None:
        """Answer on the running event loop."""
        self._together = together
        self._threads = threads
        self._terms = terms

    async def answer(self, endpoint: str, slug: str, body: bytes) -> WebhookResponse:
        """Return the response of a webhook.

        Args:
            endpoint: ADMIT, STAMP or WARN.
            slug: Of the calling cluster.
            body: Its review.
        """
        begin = time.monotonic_ns()
        facts = FACTS.at_hand(slug) if endpoint == ADMIT else None
        at_once = None if facts is None else await self._at_once(slug, body, facts, begin=begin)
        if at_once is not None:
            return at_once
        waiting = partial(answers.answer, endpoint, slug, body, begin=begin)
        return await asyncio.get_running_loop().run_in_executor(self._threads, waiting)

    async def _at_once(
        self, slug: str, body: bytes, facts: AdmissionFacts, *, begin: int
    ) -> WebhookResponse | None:
        """Return an answer that needs no thread, None where there is none."""
        try:
            review = read_review(body)
        except NoReviewError as error:
            return answers.no_review(error)
        weighed = weigh_pod(review, facts, terms=self._terms)
        if isinstance(weighed, WithPod):
            return None
        decided = await self._asked(weighed) if isinstance(weighed, Weighed) else weighed
        if decided is None:
            return None
        return answers.respond(decided, review, slug, ADMIT, begin=begin)

    async def _asked(self, weighed: Weighed) -> Decision | None:
        """Return the response to a pod that was decided in a batch; None where it was not."""
        if is_too_large(weighed.question):
            return None
        question = question_json(
            weighed.question,
            at=timezone.now(),
            ttl_seconds=self._terms.ttl_seconds,
            unbound=self._terms.unbound,
        )
        verdict = await self._together.verdict(question)
        if verdict is None or (weighed.may_be_own(verdict) and await self._freed_own(weighed)):
            return None
        return weighed.decision(verdict)

    async def _freed_own(self, weighed: Weighed) -> bool:
        """Release earlier tries of the pod's own controller, in a thread; then it asks again."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, answers.guard().ask, weighed.free_own)
        except Error:
            # The refusal stands.
            return False


def make_front(threads: Executor, clock: Callable[[], int]) -> AdmissionFront:
    """Return the front of this process, as the settings have it.

    Args:
        threads: Pool for reviews that may block.
        clock: Returns nanoseconds that only grow.
    """
    deadline_nanoseconds = settings.ADMISSION_DEADLINE_SECONDS * NANOSECONDS
    together = Together(deadline_nanoseconds // SHARE_OF_DEADLINE, clock)
    return AdmissionFront(together, threads, answers.terms())
