"""Decisions: the request in a review, and the response to the API server."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from quotas.domain.admission.ownership import SCHEDULER
from quotas.domain.admission.pod_fields import JSON
from quotas.domain.admission.pods import CLAIM_PREFIX, PodAsk, pod_ask, refuse_uncountable
from quotas.domain.admission.review import (
    Review,
    answer_of,
    claimed_classes,
    is_for_extended_resource,
)
from quotas.selectors.admission.facts import AdmissionFacts
from tenants.models.cluster import AdmissionMode, FailurePolicy

FORBIDDEN = 403
BAD_REQUEST = 400
WARNING_CHARACTERS_MAX = 256
"""What an API server passes on of one warning."""
WARNINGS_MAX = 8


@dataclass(frozen=True)
class AdmissionTerms:
    """What the settings say of admission.

    Attributes:
        ttl_seconds: How long a pod is counted before the watch has seen it.
        unbound: "allow" or "deny": pods of namespaces that no project has.
        burst_classes: PriorityClasses of preemptible pods.
        public_url: Where people reach this service, without a slash at the end.
        deadline_milliseconds: How long one question may take.
    """

    ttl_seconds: int
    unbound: str
    burst_classes: frozenset[str]
    public_url: str
    deadline_milliseconds: int


@dataclass(frozen=True)
class Decision:
    """The response to a review.

    Attributes:
        reason: One word for metrics and the cluster's audit log.
        message: Reason of a denial, for the client.
        patch: JSON patch operations of a mutating answer.
    """

    is_allowed: bool
    reason: str
    message: str = ""
    code: int = FORBIDDEN
    warnings: tuple[str, ...] = ()
    patch: tuple[dict[str, object], ...] = ()

    def under(self, facts: AdmissionFacts) -> "Decision":
        """Return the decision as the cluster's mode has it: one that only warns lets all in."""
        if self.is_allowed or facts.mode is AdmissionMode.ENFORCE:
            return self
        warning = f"GPU quota would refuse this: {self.message}"
        return replace(self, is_allowed=True, message="", warnings=(warning, *self.warnings))

    def review(self, uid: str) -> dict[str, Any]:
        """Return the AdmissionReview that answers the question of this uid."""
        answer = answer_of(
            uid,
            is_allowed=self.is_allowed,
            message=self.message,
            code=self.code,
            warnings=tuple(one[:WARNING_CHARACTERS_MAX] for one in self.warnings[:WARNINGS_MAX]),
            annotations={"decision": self.reason},
        )
        if self.is_allowed and self.patch:
            patch = base64.b64encode(json.dumps(list(self.patch)).encode()).decode()
            answer["response"] |= {"patchType": "JSONPatch", "patch": patch}
        return answer


def allowed(reason: str, *, warnings: tuple[str, ...] = ()) -> Decision:
    """Return a decision that lets the write go on."""
    return Decision(is_allowed=True, reason=reason, warnings=warnings)


def refused(reason: str, message: str, *, code: int = FORBIDDEN) -> Decision:
    """Return a decision that stops the write."""
    return Decision(is_allowed=False, reason=reason, message=message, code=code)


def malformed(message: str) -> Decision:
    """Return the refusal of an object that no API server would send."""
    return refused("malformed", message, code=BAD_REQUEST)


def lets_in_unasked(facts: AdmissionFacts) -> bool:
    """Whether the cluster admits pods while the database is unavailable."""
    return facts.mode is not AdmissionMode.ENFORCE or facts.on_failure is FailurePolicy.ALLOW


POD = ("", "Pod")
CLAIM = ("resource.k8s.io", "ResourceClaim")


def ask_of(review: Review, obj: JSON, facts: AdmissionFacts) -> PodAsk:
    """Return the request of a pod or a claim.

    Raises:
        PodInvalidError: No API server creates such an object, or its requests cannot be counted.
    """
    ask = pod_ask(
        obj if review.kind == "Pod" else {**obj, "spec": {}},
        offered=facts.offered,
        classes=facts.classes,
    )
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
    """Whether a claim is marked as counted with a pod by a client other than the scheduler."""
    if obj is None or (review.group, review.kind) != CLAIM:
        return False
    return is_for_extended_resource(obj) and review.requester.username != SCHEDULER
