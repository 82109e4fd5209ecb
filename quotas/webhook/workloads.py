"""Workloads and their owners: the owner of pods, and an early check of objects that create pods.

A user at the terminal does not see a denied pod of a Job. So a Job that could never start is denied
itself, and one that does not fit now gets a warning.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from quotas.domain.admission import denials
from quotas.domain.admission.demands import Asker, CeilingLimit, UnknownDeviceError, ceiling_of
from quotas.domain.admission.ownership import (
    KnownRequester,
    new_owner,
    old_template,
    owner_label,
    stamp,
)
from quotas.domain.admission.pod_fields import JSON, UNITS_MAX, PodInvalidError
from quotas.domain.admission.pods import PodAsk, pod_ask
from quotas.domain.admission.review import CREATE, UPDATE, Review
from quotas.domain.admission.values import Demand, PodQuestion
from quotas.domain.admission.workload_templates import Template, templates_of
from quotas.selectors.admission.caps import cap_shortages
from quotas.selectors.admission.facts import AdmissionFacts, AdmissionTenant
from quotas.selectors.limits.in_force import limits_in_force
from quotas.services.admission.admission import admit
from quotas.webhook.decisions import POD, AdmissionTerms, Decision, allowed, malformed, refused
from quotas.webhook.pods import (
    demands_for,
    identity_for,
    isolation_problem,
    place_of,
    question_of,
)
from tenants.models.cluster import AdmissionMode

TEMPLATES_ASKED_MAX = 8
"""Largest number of templates of one object that are checked in the database."""


def decide_workload(
    review: Review, facts: AdmissionFacts, *, terms: AdmissionTerms, at: datetime
) -> Decision:
    """Decide on an object that makes pods: refuse a forged owner and what can never start.

    Args:
        review: The question.
        facts: Of the cluster that asks.
        terms: What the settings say.
        at: When, UTC.

    Raises:
        django.db.Error: The database is unavailable.
    """
    if facts.mode is AdmissionMode.OFF:
        return allowed("off")
    if review.operation not in {CREATE, UPDATE} or review.obj is None:
        return allowed("nothing_to_decide")
    try:
        if identity_for(review, facts).is_trusted:
            # It acts on an object that was checked when a user requested it.
            return allowed("carried_on")
        return _decided(review, review.obj, facts, terms=terms, at=at).under(facts)
    except PodInvalidError as error:
        return malformed(str(error)).under(facts)


def _decided(
    review: Review, obj: JSON, facts: AdmissionFacts, *, terms: AdmissionTerms, at: datetime
) -> Decision:
    olds = templates_of(review.group, review.kind, review.old) if review.old else ()
    templates = [
        (template, old_template(template, olds))
        for template in templates_of(review.group, review.kind, obj)
    ]
    person = identity_for(review, facts).person
    for template, old in templates:
        label = owner_label(template.pod)
        if label not in {"", person} and (old is None or label != owner_label(old)):
            return refused("forged_owner", denials.forged_owner(label, person))
    looks = [
        _TemplateRequest(
            review,
            facts,
            terms,
            template,
            pod_ask(template.pod, offered=facts.offered, classes=facts.classes),
        )
        for template, old in templates[:TEMPLATES_ASKED_MAX]
        if template.pod != old
    ]
    return _together([look.decide(at=at) for look in looks if look.ask.concerns_gpus])


def _together(decisions: list[Decision]) -> Decision:
    refusal = next((one for one in decisions if not one.is_allowed), None)
    if refusal is not None:
        return refusal
    warnings = tuple(warning for one in decisions for warning in one.warnings)
    return allowed("warned" if warnings else "may_fit", warnings=warnings)


@dataclass(frozen=True)
class _TemplateRequest:
    """One pod template as a pod request."""

    review: Review
    facts: AdmissionFacts
    terms: AdmissionTerms
    template: Template
    ask: PodAsk

    def decide(self, *, at: datetime) -> Decision:
        """Deny what would not fit even an empty limit; warn about all other reasons."""
        if self.ask.hidden:
            return allowed("warned", warnings=(denials.hidden_gpus(self.ask.hidden),))
        try:
            demands = demands_for(self.ask.requests, self.ask.placement, self.facts)
        except UnknownDeviceError as error:
            known = {offer.resource for offer in self.facts.served}
            warning = denials.unknown_device(error.resource, known)
            return allowed("warned", warnings=(warning,))
        at_once = sum(demand.units for demand in demands) * self.template.replicas
        if at_once > UNITS_MAX:
            return refused("too_many", denials.too_many(at_once))
        tenant = self.facts.tenants.get(self.review.namespace)
        if tenant is not None:
            never = next(self._never(demands, tenant, at=at), None)
            if never is not None:
                return refused("never_fits", never)
        return allowed("warned", warnings=tuple(self._warnings(demands, at=at)))

    def _never(
        self, demands: tuple[Demand, ...], tenant: AdmissionTenant, *, at: datetime
    ) -> Iterator[str]:
        limits = [
            CeilingLimit(
                project_id=limit.project_id,
                username=limit.username,
                size=limit.size,
                model_group=limit.model_group,
                cluster_id=limit.cluster_id,
                nominal_units=limit.nominal_units,
                burst_units=limit.burst_units,
            )
            for limit in limits_in_force(at=at, organization_ids=[tenant.organization_id])
        ]
        asker = Asker(
            project_id=tenant.project_id,
            cluster_id=self.facts.cluster_id,
            owner=self._owner or tenant.default_owner,
            is_burst=self.ask.priority_class in self.terms.burst_classes,
        )
        for demand in demands:
            ceiling = ceiling_of(limits, demand=demand, asker=asker)
            if ceiling is not None and demand.units > ceiling:
                yield denials.never_fits(
                    self.review.kind, demand.size, asked=demand.units, ceiling=ceiling
                )

    def _warnings(self, demands: tuple[Demand, ...], *, at: datetime) -> Iterator[str]:
        problem = isolation_problem(self.ask, demands, self.review.namespace, self.facts)
        if problem is not None:
            yield f"Its pods would be refused: {problem.message} {problem.remedy}"
        together = tuple(self._all_pods(demand) for demand in demands if self.template.replicas)
        if not together:
            return
        question = question_of(
            self.review, self.ask, together, self.facts, owner=self._owner, terms=self.terms
        )
        question = _only_asking(question, self.review)
        verdict = admit(
            question=question,
            at=at,
            ttl_seconds=self.terms.ttl_seconds,
            unbound=self.terms.unbound,
            deadline_milliseconds=self.terms.deadline_milliseconds,
        )
        if not verdict.is_allowed:
            place = place_of(self.review.namespace, self.facts, self.terms)
            yield f"It does not fit now: {place.refusal(verdict)}"
            return
        for shortage in cap_shortages(question, at=at):
            yield denials.cap_too_small(
                self.review.namespace,
                shortage.resource,
                asked=shortage.asked_units,
                hard=shortage.hard_units,
                used=shortage.used_units,
            )

    @property
    def _owner(self) -> str:
        return self.ask.owner or identity_for(self.review, self.facts).person

    def _all_pods(self, demand: Demand) -> Demand:
        return replace(demand, units=demand.units * self.template.replicas)


def _only_asking(question: PodQuestion, review: Review) -> PodQuestion:
    """Return a question that counts nothing, of a pod that does not exist."""
    return replace(question, pod_uid=review.uid[:64], is_dry_run=True)


def decide_stamp(
    review: Review,
    facts: AdmissionFacts,
    *,
    terms: AdmissionTerms,  # noqa: ARG001 - Every webhook has the same signature.
    at: datetime,  # noqa: ARG001 - As above.
) -> Decision:
    """Answer with the patch that makes an object say its owner; nothing is refused but nonsense.

    Args:
        review: The question, of a mutating webhook.
        facts: Of the cluster that asks.
        terms: What the settings say.
        at: When, UTC.
    """
    if facts.mode is AdmissionMode.OFF:
        return allowed("off")
    if review.obj is None or review.operation not in {CREATE, UPDATE}:
        return allowed("nothing_to_decide")
    try:
        patch = _patch(review, review.obj, facts)
    except PodInvalidError as error:
        return malformed(str(error)).under(facts)
    reason = "stamped" if patch else "as_it_is"
    return Decision(is_allowed=True, reason=reason, patch=tuple(patch))


def _patch(review: Review, obj: JSON, facts: AdmissionFacts) -> list[dict[str, object]]:
    identity = identity_for(review, facts)
    if (review.group, review.kind) == POD:
        # A pod's owner is immutable; the validating webhook denies a change.
        return _pod_patch(obj, identity, facts) if review.operation == CREATE else []
    olds = templates_of(review.group, review.kind, review.old) if review.old else ()
    return [
        operation
        for template in templates_of(review.group, review.kind, obj)
        if asks_gpus(template.pod, facts)
        for operation in stamp(
            template.path,
            template.pod,
            new_owner(template.pod, old_template(template, olds), identity),
        )
    ]


def _pod_patch(
    obj: JSON, identity: KnownRequester, facts: AdmissionFacts
) -> list[dict[str, object]]:
    return stamp((), obj, new_owner(obj, None, identity)) if asks_gpus(obj, facts) else []


def asks_gpus(pod: JSON, facts: AdmissionFacts) -> bool:
    """Whether a pod or a template has anything to do with GPUs.

    Raises:
        PodInvalidError: It is no pod.
    """
    ask = pod_ask(pod, offered=facts.offered, classes=facts.classes)
    return ask.concerns_gpus or ask.has_claims
