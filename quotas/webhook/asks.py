"""Asks: what the pod or the claim of a review asks for, as it is and as it was."""

from collections.abc import Mapping

from quotas.domain.admission_review import Review
from quotas.domain.claim_review import claimed_classes, is_for_extended_resource
from quotas.domain.ownership import SCHEDULER
from quotas.domain.pod_fields import JSON
from quotas.domain.pod_review import CLAIM_PREFIX, PodAsk, pod_ask, refuse_uncountable
from quotas.selectors.admission_facts import AdmissionFacts

POD = ("", "Pod")
CLAIM = ("resource.k8s.io", "ResourceClaim")


def ask_of(review: Review, obj: JSON, facts: AdmissionFacts) -> PodAsk:
    """Return what a pod or a claim asks for.

    Raises:
        PodInvalidError: No API server makes such an object, or it asks for what nobody can count.
    """
    ask = pod_ask(obj if review.kind == "Pod" else {**obj, "spec": {}}, offered=facts.offered)
    if review.kind == "Pod":
        return ask
    if is_for_extended_resource(obj) and review.requester.username == SCHEDULER:
        # It was counted with the pod that it is made for.
        return ask
    claimed = {f"{CLAIM_PREFIX}{name}": count for name, count in claimed_classes(obj).items()}
    refuse_uncountable(claimed)
    return _with_requests(ask, claimed)


def _with_requests(ask: PodAsk, requests: Mapping[str, int]) -> PodAsk:
    return PodAsk(**{**vars(ask), "requests": requests})


def is_forged_claim(review: Review, obj: JSON | None) -> bool:
    """Whether a claim says it was counted with a pod, and not the scheduler says so."""
    if obj is None or (review.group, review.kind) != CLAIM:
        return False
    return is_for_extended_resource(obj) and review.requester.username != SCHEDULER
