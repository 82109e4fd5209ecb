"""Decisions: what is answered to an API server, and how it becomes an AdmissionReview."""

import base64
import json
from dataclasses import dataclass, replace
from typing import Any

from quotas.domain.admission_review import answer_of
from quotas.selectors.admission_facts import AdmissionFacts
from tenants.models.cluster import AdmissionMode, FailurePolicy

FORBIDDEN = 403
BAD_REQUEST = 400
WARNING_CHARACTERS_MAX = 256
"""What an API server passes on of one warning."""
WARNINGS_MAX = 8


@dataclass(frozen=True)
class Terms:
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
    """What is answered.

    Attributes:
        reason: One word for metrics and the cluster's audit log.
        message: Why not, for the client.
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
        told = answer_of(
            uid,
            is_allowed=self.is_allowed,
            message=self.message,
            code=self.code,
            warnings=tuple(one[:WARNING_CHARACTERS_MAX] for one in self.warnings[:WARNINGS_MAX]),
            annotations={"decision": self.reason},
        )
        if self.is_allowed and self.patch:
            patch = base64.b64encode(json.dumps(list(self.patch)).encode()).decode()
            told["response"] |= {"patchType": "JSONPatch", "patch": patch}
        return told


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
    """Whether the cluster wants pods let in while the ledger cannot be asked."""
    return facts.mode is not AdmissionMode.ENFORCE or facts.on_failure is FailurePolicy.ALLOW
