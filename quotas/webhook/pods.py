"""Pods and ResourceClaims: may this one be created."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cached_property, partial
from typing import TypeVar

from metering.domain.catalogue.names import possible_sizes
from quotas.domain.admission import denials
from quotas.domain.admission.demands import UnknownDeviceError, demands_of
from quotas.domain.admission.node_fit import Placement
from quotas.domain.admission.ownership import (
    KnownRequester,
    controlling_kind,
    identity_of,
    is_forged,
    owner_of,
)
from quotas.domain.admission.pod_fields import PodInvalidError
from quotas.domain.admission.pods import PodAsk
from quotas.domain.admission.review import CREATE, UPDATE, Review
from quotas.domain.admission.values import AdmissionVerdict, Demand, PodQuestion, VerdictCode
from quotas.domain.admission.workload_templates import KINDS
from quotas.domain.isolation.rules import IsolationProblem, find_isolation_problem
from quotas.selectors.admission.facts import AdmissionFacts
from quotas.services.admission.admission import admit
from quotas.webhook.changes import decide_change
from quotas.webhook.claim_owners import WithPod, keep_pod, owner_of_pod, pod_of_claim
from quotas.webhook.decisions import (
    CLAIM,
    POD,
    AdmissionTerms,
    Decision,
    allowed,
    ask_of,
    is_forged_claim,
    malformed,
    refused,
)
from quotas.webhook.unseen import free_own, is_read
from tenants.models.cluster import AdmissionMode

NO_UID = "metadata.uid is missing: this must be asked as a validating webhook."
HALF_MILLISECONDS = 2_000
"""Divides a deadline: half of it, in seconds, may pass before a pod is asked again."""
JUDGED_MAX = 1_000
"""Size of the cache of checked requests; entries are valid for the same facts only."""
JUDGED_PARTS_MAX = 64
"""Largest request in the cache, in resources and conditions."""
Answered = TypeVar("Answered")
NO_PODS = "This endpoint is for pods and resource claims: have the webhook's rules checked."


def decide_pod(
    review: Review, facts: AdmissionFacts, *, terms: AdmissionTerms, at: datetime
) -> Decision:
    """Decide on a pod or a resource claim that is created or changed.

    Args:
        review: The question.
        facts: Of the cluster that asks.
        terms: What the settings say.
        at: When, UTC.

    Raises:
        django.db.Error: The database is unavailable.
    """
    weighed = weigh_pod(review, facts, terms=terms)
    if isinstance(weighed, WithPod):
        weighed = _answered(facts, partial(weighed.weigh, at))
    if isinstance(weighed, Decision):
        return weighed
    ask = partial(
        admit,
        question=weighed.question,
        at=at,
        ttl_seconds=terms.ttl_seconds,
        unbound=terms.unbound,
        deadline_milliseconds=terms.deadline_milliseconds,
    )
    verdict = ask()
    if weighed.may_be_own(verdict) and weighed.free_own():
        verdict = ask()
    return weighed.decision(verdict)


def weigh_pod(
    review: Review, facts: AdmissionFacts, *, terms: AdmissionTerms
) -> "Decision | Weighed | WithPod":
    """Return the decision if no query is needed, else the query, or what goes before it."""
    if facts.mode is AdmissionMode.OFF:
        return allowed("off")
    return _answered(facts, partial(_weighed, review, facts, terms))


def _answered(facts: AdmissionFacts, weigh: Callable[[], Answered]) -> Answered | Decision:
    """Return what a function returns, and a decision as the cluster's mode has it."""
    try:
        weighed = weigh()
    except PodInvalidError as error:
        return malformed(str(error)).under(facts)
    return weighed.under(facts) if isinstance(weighed, Decision) else weighed


def _weighed(
    review: Review, facts: AdmissionFacts, terms: AdmissionTerms
) -> "Decision | Weighed | WithPod":
    kind = (review.group, review.kind)
    if kind not in {POD, CLAIM}:
        return malformed(NO_PODS)
    if review.operation not in {CREATE, UPDATE}:
        return allowed("nothing_to_decide")
    if review.obj is None or not review.namespace:
        return malformed("The review has no object, or no namespace.")
    ask = ask_of(review, review.obj, facts)
    if review.operation == UPDATE:
        return decide_change(review, ask, facts)
    pod_uid = pod_of_claim(review, facts)
    if not pod_uid:
        return _Creation(review, ask, facts, terms).weighed()
    return WithPod(
        lambda _: _Creation(review, ask, facts, terms, owner_of_pod(facts, pod_uid)).counted()
    )


@dataclass(frozen=True)
class Weighed:
    """A pod or claim that needs a query: to decide it, or only to count it.

    Attributes:
        question: To the ledger.
        refusal: The reason against it where the cluster only warns.
    """

    question: PodQuestion
    refusal: Decision | None
    review: Review
    ask: PodAsk
    facts: AdmissionFacts
    terms: AdmissionTerms

    def may_be_own(self, verdict: AdmissionVerdict) -> bool:
        """Whether units may be missing because of earlier tries of the pod's own controller.

        Those were refused behind this webhook, for example by a ResourceQuota.
        """
        return (
            verdict.code is VerdictCode.LIMIT_REACHED
            and self.facts.mode is AdmissionMode.ENFORCE
            and not self.question.is_dry_run
            and is_read(self.question.controller)
        )

    def free_own(self) -> bool:
        """Release such earlier tries; whether there were any.

        Raises:
            django.db.Error: The database is unavailable.
        """
        return free_own(
            self.question, seconds=Decimal(self.terms.deadline_milliseconds) / HALF_MILLISECONDS
        )

    def decision(self, verdict: AdmissionVerdict) -> Decision:
        """Return what is answered once the ledger has answered."""
        return (self.refusal or self._denial(verdict)).under(self.facts)

    def _denial(self, verdict: AdmissionVerdict) -> Decision:
        place = place_of(self.review.namespace, self.facts, self.terms)
        if not verdict.is_allowed:
            text = place.refusal(verdict)
            if (self.review.group, self.review.kind) == CLAIM:
                text = f"{text} {denials.CLAIM_IS_NOMINAL}"
            return refused(verdict.code.value, text)
        return allowed(verdict.code.value, warnings=self._warnings(verdict, place))

    def _warnings(self, verdict: AdmissionVerdict, place: denials.PodNamespace) -> tuple[str, ...]:
        beside = (denials.hidden_beside(self.ask.beside),) if self.ask.beside else ()
        return (*beside, *(place.nearly_full(one) for one in verdict.nearly_full))


@dataclass(frozen=True)
class _Creation:
    """One pod or ResourceClaim to be created.

    Attributes:
        pod_owner: Of the pod that a claim was made for; "" for all others.
    """

    review: Review
    ask: PodAsk
    facts: AdmissionFacts
    terms: AdmissionTerms
    pod_owner: str = ""

    def weighed(self) -> Decision | Weighed | WithPod:
        """Return the first denial, or the query; of a pod with ResourceClaims its owner is kept."""
        if self.ask.concerns_gpus or not self.ask.has_claims:
            return self.counted()
        if is_forged(self.ask, self._identity) and self.facts.mode is AdmissionMode.ENFORCE:
            return self._forged()
        owner = owner_of(self.ask, self._identity)
        return keep_pod(self.review, self.facts, uid=self.ask.uid, owner=owner)

    def counted(self) -> Decision | Weighed:
        """Return the first denial, or the query.

        In a cluster that only warns the query always runs: everything counts there.
        """
        if not self.ask.concerns_gpus:
            return allowed("no_gpus")
        if not self.ask.uid:
            return malformed(NO_UID)
        is_enforced = self.facts.mode is AdmissionMode.ENFORCE
        refusal = self._refusal()
        if refusal is not None and is_enforced:
            return refusal
        try:
            demands, problem = _judged(self.ask, self.review.namespace, self.facts)
        except UnknownDeviceError as error:
            return refused("unknown_device", _unknown(error.resource, self.facts))
        refusal = refusal or (_isolated(problem) if problem is not None else None)
        if not demands or (refusal is not None and is_enforced):
            return refusal or allowed("no_gpus")
        return Weighed(
            self._question(demands), refusal, self.review, self.ask, self.facts, self.terms
        )

    def _refusal(self) -> Decision | None:
        if is_forged(self.ask, self._identity):
            return self._forged()
        if is_forged_claim(self.review, self.review.obj):
            return refused("forged_claim", denials.FORGED_CLAIM)
        if self.ask.hidden:
            return refused("hidden_gpus", denials.hidden_gpus(self.ask.hidden))
        return None

    def _forged(self) -> Decision:
        message = denials.forged_owner(self.ask.owner, self._identity.person)
        return refused("forged_owner", message)

    @cached_property
    def _identity(self) -> KnownRequester:
        return identity_for(self.review, self.facts)

    def _question(self, demands: tuple[Demand, ...]) -> PodQuestion:
        owner = self.pod_owner or owner_of(self.ask, self._identity)
        return question_of(
            self.review, self.ask, demands, self.facts, owner=owner, terms=self.terms
        )


def identity_for(review: Review, facts: AdmissionFacts) -> KnownRequester:
    """Return the requester as this service knows them.

    Raises:
        PodInvalidError: The object is not one of an API server.
    """
    return identity_of(
        review.requester,
        prefix=facts.user_prefix,
        trusted=facts.trusted,
        made_by=controlling_kind(review.obj or {}),
    )


def _judged(
    ask: PodAsk, namespace: str, facts: AdmissionFacts
) -> tuple[tuple[Demand, ...], IsolationProblem | None]:
    """Return what a pod's requests count to, and why it may not be served so.

    Equal requests in one namespace are checked once per version of the facts.
    """
    key = (namespace, ask.work_kind, ask.placement, *ask.requests.items())
    known = facts.judged.get(key)
    if known is None:
        demands = demands_for(ask.requests, ask.placement, facts)
        known = demands, isolation_problem(ask, demands, namespace, facts)
        if len(facts.judged) < JUDGED_MAX and _is_small(ask):
            facts.judged[key] = known
    return known


def _is_small(ask: PodAsk) -> bool:
    """Whether a request is small enough for the cache; one that names a thousand nodes is not."""
    placement = ask.placement
    parts = len(ask.requests) + sum(
        1 + len(one.values) for term in (placement.selector, *placement.terms) for one in term
    )
    return parts + len(placement.terms) <= JUDGED_PARTS_MAX


def demands_for(
    requests: Mapping[str, int], placement: Placement, facts: AdmissionFacts
) -> tuple[Demand, ...]:
    """Return what requests count to on a cluster; see `demands_of`."""
    return demands_of(requests, placement, offers=facts.offers, rules=facts.rules, seen=facts.seen)


def isolation_problem(
    ask: PodAsk, demands: tuple[Demand, ...], namespace: str, facts: AdmissionFacts
) -> IsolationProblem | None:
    """Return why a pod may not use the requested device mode; None when it may.

    A namespace without a project has no policy: the admission statement decides on its pods.
    """
    tenant = facts.tenants.get(namespace)
    if tenant is None:
        return None
    nodes = ask.placement.nodes_within(facts.offers) if ask.placement != Placement() else None
    return find_isolation_problem(
        policies=facts.policies,
        organization=tenant.organization,
        project=tenant.project,
        work_kind=ask.work_kind,
        demands=demands,
        offers=facts.served,
        nodes=nodes,
        has_other_tenants=facts.has_several_tenants,
    )


def question_of(
    review: Review,
    ask: PodAsk,
    demands: tuple[Demand, ...],
    facts: AdmissionFacts,
    *,
    owner: str,
    terms: AdmissionTerms,
) -> PodQuestion:
    """Return the question to the ledger."""
    tenant = facts.tenants.get(review.namespace)
    return PodQuestion(
        cluster_id=facts.cluster_id,
        namespace=review.namespace,
        pod_uid=ask.uid,
        pod_name=ask.name,
        owner=owner or (tenant.default_owner if tenant is not None else ""),
        demands=demands,
        controller=_controller(review, ask, facts),
        priority_class=ask.priority_class,
        is_burst=ask.priority_class in terms.burst_classes,
        is_dry_run=review.is_dry_run,
    )


def _controller(review: Review, ask: PodAsk, facts: AdmissionFacts) -> str:
    """Return a pod's controller; "" where its client only says that it has such a one.

    What a controller lacks is read under this name, so only its own requests may carry it.
    """
    if not is_read(ask.controller):
        return ask.controller
    is_known = controlling_kind(review.obj or {}) in KINDS
    return ask.controller if is_known and identity_for(review, facts).is_trusted else ""


def place_of(namespace: str, facts: AdmissionFacts, terms: AdmissionTerms) -> denials.PodNamespace:
    """Return a pod's cluster and namespace, as denials name them."""
    tenant = facts.tenants.get(namespace)
    return denials.PodNamespace(
        cluster=facts.slug,
        namespace=namespace,
        organization="" if tenant is None else tenant.organization,
        project="" if tenant is None else tenant.project,
        public_url=terms.public_url,
    )


def _isolated(problem: IsolationProblem) -> Decision:
    return refused(problem.code.value, f"{problem.message} {problem.remedy}")


def _unknown(resource: str, facts: AdmissionFacts) -> str:
    known = {offer.resource for offer in facts.served}
    known |= {name for name in facts.offered if possible_sizes(name, rules=facts.rules)}
    return denials.unknown_device(resource, known)
