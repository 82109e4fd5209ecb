"""Owners of ResourceClaims: what is made from a template belongs to the owner of its pod.

Only a controller of kube-system, or a trusted one, makes such objects, and they name the pod by its
uid. The pod itself has nothing to count; when it is admitted its owner is kept for them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from quotas.domain.admission.ownership import is_of_kube_system
from quotas.domain.admission.pod_fields import mapping, objects, text
from quotas.domain.admission.review import Review
from quotas.selectors.admission.facts import AdmissionFacts
from quotas.selectors.admission.owners import admitted_owners
from quotas.services.admission.claim_pods import keep_owner
from quotas.webhook.decisions import CLAIM, Decision, allowed

if TYPE_CHECKING:
    from quotas.webhook.pods import Weighed


@dataclass(frozen=True)
class WithPod:
    """A review that takes a statement of its own before it can be weighed.

    Attributes:
        weigh: Takes the time, returns the decision or the query; may wait for the database.
    """

    weigh: "Callable[[datetime], Decision | Weighed]"


def pod_of_claim(review: Review, facts: AdmissionFacts) -> str:
    """Return the uid of the pod that a template made a ResourceClaim for; "" without one.

    Raises:
        PodInvalidError: The object is not one of an API server.
    """
    is_controller = (
        is_of_kube_system(review.requester) or review.requester.username in facts.trusted
    )
    if (review.group, review.kind) != CLAIM or not is_controller:
        return ""
    metadata = mapping((review.obj or {}).get("metadata"), "metadata")
    for owner in objects(metadata.get("ownerReferences"), "metadata.ownerReferences"):
        if owner.get("controller") is True and owner.get("apiVersion") == "v1":
            is_pod = owner.get("kind") == "Pod"
            return text(owner.get("uid"), "metadata.ownerReferences.uid") if is_pod else ""
    return ""


def owner_of_pod(facts: AdmissionFacts, pod_uid: str) -> str:
    """Return the owner of an admitted pod; "" for one that never was.

    Raises:
        django.db.Error: The database is unavailable.
    """
    return admitted_owners(facts.cluster_id, [pod_uid]).get(pod_uid, "")


def keep_pod(review: Review, facts: AdmissionFacts, *, uid: str, owner: str) -> WithPod | Decision:
    """Return the answer to a pod with ResourceClaims alone: its owner is kept."""
    nothing = allowed("no_gpus")
    if review.is_dry_run or not uid:
        return nothing

    def keep(at: datetime) -> Decision:
        keep_owner(cluster_id=facts.cluster_id, pod_uid=uid, owner=owner, at=at)
        return nothing

    return WithPod(keep)
