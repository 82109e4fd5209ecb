"""Changes of pods and ResourceClaims: what was admitted may not become another thing."""

from quotas.domain.admission import denials
from quotas.domain.admission.ownership import labelled_owner
from quotas.domain.admission.pod_fields import JSON
from quotas.domain.admission.pods import WORK_KIND_LABEL, PodAsk
from quotas.domain.admission.review import Review
from quotas.selectors.admission.facts import AdmissionFacts
from quotas.webhook.decisions import Decision, allowed, ask_of, is_forged_claim, malformed, refused


def decide_change(review: Review, ask: PodAsk, facts: AdmissionFacts) -> Decision:
    """Decide on a change of a pod or a ResourceClaim.

    Args:
        review: The question.
        ask: Its request after the change.
        facts: Of the cluster that asks.

    Raises:
        PodInvalidError: What was is no object of an API server.
    """
    if review.old is None:
        return malformed("The review of a change does not tell what was.")
    old = ask_of(review, review.old, facts)
    if not any(one.concerns_gpus or one.has_claims for one in (ask, old)):
        return allowed("no_gpus")
    return (
        _changed(ask, old)
        or _relabelled(review.obj or {}, review.old, facts.user_label)
        or _newly_forged(review)
        or allowed("unchanged")
    )


def _changed(ask: PodAsk, old: PodAsk) -> Decision | None:
    """Return the denial of a change to the fields by which a pod was admitted."""
    if ask.owner != old.owner:
        return refused("owner_changed", denials.OWNER_CHANGED)
    if ask.requests != old.requests:
        return refused("request_changed", denials.REQUEST_CHANGED)
    known = {*old.hidden, *old.beside}
    new_ways = tuple(way for way in (*ask.hidden, *ask.beside) if way not in known)
    # An ephemeral container cannot request what it reaches.
    return refused("hidden_gpus", denials.hidden_gpus(new_ways)) if new_ways else None


def _relabelled(obj: JSON, old: JSON, user_label: str) -> Decision | None:
    """Return the refusal of a change of what a pod is counted for."""
    if labelled_owner(obj, user_label) != labelled_owner(old, user_label):
        return refused("label_changed", denials.label_changed(user_label))
    if labelled_owner(obj, WORK_KIND_LABEL) != labelled_owner(old, WORK_KIND_LABEL):
        return refused("label_changed", denials.label_changed(WORK_KIND_LABEL))
    return None


def _newly_forged(review: Review) -> Decision | None:
    if is_forged_claim(review, review.obj) and not is_forged_claim(review, review.old):
        return refused("forged_claim", denials.FORGED_CLAIM)
    return None
