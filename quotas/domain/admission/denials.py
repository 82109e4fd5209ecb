"""Denials: the sentences a person reads under `kubectl apply`, and reads back later.

They name the holder, the limit, the used, reserved and requested units, and the remedy.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from metering.domain.catalogue.units import GPUSize
from quotas.domain.admission.pod_fields import UNITS_MAX
from quotas.domain.admission.values import AdmissionVerdict, Blocker, VerdictCode

ALTERNATIVES_MAX: Final = 8
"""How many resources a refusal names; a person reads it."""


OTHERWISE: Final[Mapping[VerdictCode, str]] = {
    VerdictCode.REPLAYED_OTHERWISE: (
        "This uid was admitted before as another pod, or as one that is over: delete the pod and "
        "create it anew."
    ),
    VerdictCode.DEMAND_TOO_LARGE: (
        f"More than {UNITS_MAX} devices are counted of no pod: ask for what it needs."
    ),
}
"""Refusals that name no limit."""


@dataclass(frozen=True)
class PodNamespace:
    """Namespace of a pod that requests GPUs.

    Attributes:
        organization: Slug; "" for a namespace without an organization.
        project: As above.
        public_url: Where this service is reached, without a slash at the end.
    """

    cluster: str
    namespace: str
    organization: str
    project: str
    public_url: str

    @property
    def _ask_for_quota(self) -> str:
        return f"ask for quota at {self.public_url}/api/v1/quota-requests/"

    def refusal(self, verdict: AdmissionVerdict) -> str:
        """Return why a verdict refuses a pod, with its remedy."""
        if verdict.code is VerdictCode.NAMESPACE_UNBOUND:
            return (
                f"Namespace {self.namespace} of cluster {self.cluster} belongs to no project: "
                "have a platform administrator bind it."
            )
        if verdict.code is VerdictCode.SUSPENDED:
            why = f" ({verdict.reason})" if verdict.reason else ""
            return (
                f"Project {self.project} of {self.organization} may start nothing new{why}: "
                "what runs stays; ask an administrator of the organization."
            )
        if verdict.code is VerdictCode.CLOSED:
            return (
                f"Project {self.project} is closed: nothing starts in it any more, nor in any "
                f"other project if all of {self.organization} is; ask a platform administrator."
            )
        if verdict.blocker is None:
            return OTHERWISE.get(verdict.code, f"Refused ({verdict.code}): {self._ask_for_quota}.")
        return self._blocked(verdict.code, verdict.blocker)

    def _blocked(self, code: VerdictCode, blocker: Blocker) -> str:
        whose = self._whose(blocker)
        asked = f"{blocker.asked_units} {_name(blocker)}"
        if code is VerdictCode.NOTHING_GRANTED:
            return f"{whose} is granted no {_name(blocker)}, asked {asked}: {self._ask_for_quota}."
        if code is VerdictCode.ALLOWANCE_USED:
            return (
                f"{whose} has used its {_name(blocker)} unit-hours of this month: "
                f"{self._ask_for_quota}."
            )
        return f"{whose} requests {asked}, {_numbers(blocker)}: {self._ask_for_quota}."

    def nearly_full(self, blocker: Blocker) -> str:
        """Return the warning that a limit is close."""
        return (
            f"{self._whose(blocker)} nears its {_name(blocker)} quota: {_numbers(blocker)}, and "
            f"{blocker.asked_units} for this pod."
        )

    def _whose(self, blocker: Blocker) -> str:
        if blocker.scope == "project":
            return f"Project {blocker.holder} of {self.organization}"
        if blocker.scope == "user":
            return f"User {blocker.holder} in project {self.project} of {self.organization}"
        return f"Organization {blocker.holder}"


def _name(blocker: Blocker) -> str:
    """Return what a limit is of, such as "Large (H100, cluster hopper, burst)"."""
    parts = [blocker.model_group]
    if blocker.cluster:
        parts.append(f"cluster {blocker.cluster}")
    if blocker.is_burst:
        parts.append("burst")
    details = ", ".join(part for part in parts if part)
    return (
        f"{blocker.size.value.capitalize()} ({details})"
        if details
        else blocker.size.value.capitalize()
    )


def _numbers(blocker: Blocker) -> str:
    return (
        f"limit {blocker.limit_units}, used {blocker.used_units}, reserved {blocker.reserved_units}"
    )


def unknown_device(resource: str, known: Iterable[str]) -> str:
    """Return the refusal of a resource that no rule gives a size."""
    offered = sorted(known)
    instead = (
        f"ask for one of: {', '.join(offered[:ALTERNATIVES_MAX])}"
        if offered
        else "ask for what the cluster offers"
    )
    return (
        f"{resource} is a device without a size: have a platform administrator add a rule to the "
        f"size catalogue, or {instead}."
    )


def hidden_gpus(ways: Sequence[str]) -> str:
    """Return the denial of a pod whose containers can use GPUs without requesting any."""
    return (
        f"The pod reaches GPUs without requesting any ({'; '.join(ways[:ALTERNATIVES_MAX])}): "
        "request nvidia.com/gpu in resources.limits of the same container, or set "
        "NVIDIA_VISIBLE_DEVICES to void and leave device files and privileges out."
    )


def hidden_beside(ways: Sequence[str]) -> str:
    """Return the warning for a pod that requests GPUs and reaches for more."""
    return (
        f"The pod may reach more GPUs than it requests ({'; '.join(ways[:ALTERNATIVES_MAX])}): "
        "leave that to the device plugin."
    )


def forged_owner(named: str, person: str) -> str:
    """Return the denial of an owner that the requester may not name."""
    reason = (
        f"{person} may not create pods of {named}"
        if person
        else f"no user or controller may set {named}"
    )
    return (
        f"The annotation gpu-ledger.io/owner is forged: {reason}. Leave it out; it is set for you."
    )


OWNER_CHANGED: Final = (
    "The annotation gpu-ledger.io/owner of a pod cannot be changed: delete the pod and create it "
    "again as the user to whom it shall belong."
)
CLAIM_IS_NOMINAL: Final = (
    "A resource claim has no priority class: it counts against nominal units, also where "
    "preemptible pods use it."
)
FORGED_CLAIM: Final = (
    "The annotation resource.kubernetes.io/extended-resource-claim is forged: only the scheduler "
    "says that a claim was counted with its pod. Leave it out."
)
REQUEST_CHANGED: Final = (
    "The GPUs of a pod cannot be changed: delete the pod and create it anew with what it needs."
)
UNANSWERABLE: Final = (
    "The quota ledger cannot count what this asks for: ask for less, with shorter names."
)
NOT_IN_TIME: Final = "The quota service could not decide in time"


def label_changed(label: str) -> str:
    """Return the denial of a changed label for a pod's owner or kind of work."""
    return (
        f"The label {label} of a pod that uses GPUs cannot be changed: delete the pod and create "
        "it anew with the label it shall have."
    )


def undecided(*, is_allowed: bool) -> str:
    """Return the message for a database that does not answer."""
    if is_allowed:
        return f"{NOT_IN_TIME}; the cluster's policy lets the pod in, and it will be counted."
    return f"{NOT_IN_TIME}, and the cluster's policy refuses the pod: try again in a minute."


def too_many(asked: int) -> str:
    """Return the denial of a workload whose pods request more devices than can be counted."""
    return (
        f"Its pods ask for {asked} devices at once, and {UNITS_MAX} is the most that is counted: "
        "ask for fewer pods at a time."
    )


def never_fits(kind: str, size: GPUSize, *, asked: int, ceiling: int) -> str:
    """Return the denial of a workload of which no single pod could ever be admitted."""
    return (
        f"One pod of this {kind} asks for {asked} {size.value.capitalize()}, and the limits in "
        f"force would allow {ceiling} if nothing else ran: it could never start. Ask for less, or "
        "for a larger quota."
    )


def cap_too_small(namespace: str, resource: str, *, asked: int, hard: int, used: int) -> str:
    """Return the warning for a workload that the limits admit and its namespace's quota does not.

    It says the numbers first: an API server passes on the first 256 characters.
    """
    return (
        f"Its limits admit it, but ResourceQuota gpu-ledger of {namespace} refuses it now: it "
        f"requests {asked} {resource}, hard {hard}, used {used}. Spare units of other namespaces "
        "follow its refused pods."
    )


WITHOUT_FIGURES: Final[Mapping[str, str]] = {
    VerdictCode.LIMIT_REACHED.value: "has no room left for as many",
    VerdictCode.NOTHING_GRANTED.value: "grants none of this size",
    VerdictCode.ALLOWANCE_USED.value: "has used its unit-hours of this month",
}
"""Messages of denials by a limit without the figures; other messages have none."""
SCOPES: Final = frozenset({"organization", "project", "user"})


def visible_refusal(message: str, *, code: str, hidden_scopes: Collection[str]) -> str:
    """Return a denial message for a reader who may not read the limits of some scopes.

    Args:
        message: As stored; for a limit, "<scope> <holder>: " and the numbers.
        code: The verdict's.
        hidden_scopes: Scopes of limits whose figures the reader may not read.
    """
    words = WITHOUT_FIGURES.get(code)
    if words is None or not message or not hidden_scopes:
        return message
    whose = message.partition(":")[0]
    scope = whose.partition(" ")[0]
    if scope not in SCOPES:
        return f"a limit {words}."
    return f"{whose} {words}." if scope in hidden_scopes else message
