"""Owners: who a pod or a workload belongs to is written into it while the person is known."""

from datetime import datetime

from quotas.domain.admission_review import CREATE, UPDATE, Review
from quotas.domain.ownership import Identity, new_owner, old_template, stamp
from quotas.domain.pod_fields import JSON, PodInvalidError
from quotas.domain.pod_review import pod_ask
from quotas.domain.workload_templates import templates_of
from quotas.selectors.admission_facts import AdmissionFacts
from quotas.webhook.asks import POD
from quotas.webhook.decisions import Decision, Terms, allowed, malformed
from quotas.webhook.pods import identity_for
from tenants.models.cluster import AdmissionMode


def decide_stamp(
    review: Review,
    facts: AdmissionFacts,
    *,
    terms: Terms,  # noqa: ARG001 - Every door is called alike.
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
        # A pod's owner never changes; whoever tries is told so where changes are validated.
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


def _pod_patch(obj: JSON, identity: Identity, facts: AdmissionFacts) -> list[dict[str, object]]:
    return stamp((), obj, new_owner(obj, None, identity)) if asks_gpus(obj, facts) else []


def asks_gpus(pod: JSON, facts: AdmissionFacts) -> bool:
    """Whether a pod or a template has anything to do with GPUs.

    Raises:
        PodInvalidError: It is no pod.
    """
    ask = pod_ask(pod, offered=facts.offered)
    return ask.concerns_gpus or ask.has_claims
