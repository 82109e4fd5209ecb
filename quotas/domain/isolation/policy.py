"""Isolation policies: what a tenant allows for a kind of work, and which policy binds a pod.

A project's policy takes precedence over its organization's, and one for the kind of work over one
for any kind. Without a policy the default of the kind holds: training is never shared, development
may use time-slicing, inference has at least its own part of one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class WorkKind(StrEnum):
    """The kind of work of a pod, from the label `gpu-ledger.io/work-kind`."""

    TRAINING = "training"
    DEVELOPMENT = "development"
    INFERENCE = "inference"


class ServingMode(StrEnum):
    """A way a policy may let a pod be served.

    Attributes:
        DEDICATED: A whole GPU of a node that is the organization's alone.
        WHOLE: A whole GPU of any node.
        MIG: A MIG instance: hardware of its own, several on one GPU.
        MPS: A device several pods use at once, each with its part of memory and threads.
        TIME_SLICING: A device shared in time by several pods, without isolation.
    """

    DEDICATED = "dedicated"
    WHOLE = "whole"
    MIG = "mig"
    MPS = "mps"
    TIME_SLICING = "time-slicing"


MEETING_MODES: Final = frozenset({ServingMode.MPS, ServingMode.TIME_SLICING})
"""Modes in which pods share a device without hardware isolation."""

DEFAULT_KIND: Final = WorkKind.DEVELOPMENT
DEFAULT_MODES: Final[Mapping[WorkKind, frozenset[ServingMode]]] = {
    WorkKind.TRAINING: frozenset({ServingMode.DEDICATED, ServingMode.WHOLE}),
    WorkKind.DEVELOPMENT: frozenset(ServingMode),
    WorkKind.INFERENCE: frozenset(ServingMode) - {ServingMode.TIME_SLICING},
}


@dataclass(frozen=True)
class Policy:
    """What one organization or project allows for one kind of work, or for any.

    Attributes:
        organization: Slug.
        project: Slug; None for every project of the organization.
        work_kind: None for any kind.
        modes: What may serve it.
        allow_shared_with_other_tenants: Whether pods of other organizations may be on the same
            device under time-slicing or MPS, where those modes are allowed at all.
        default_kind: What pods without the label are for; None leaves it to what is wider.
    """

    organization: str
    project: str | None
    work_kind: WorkKind | None
    modes: frozenset[ServingMode]
    allow_shared_with_other_tenants: bool = False
    default_kind: WorkKind | None = None

    @property
    def holder(self) -> str:
        """Holder and kind of work of the policy, as text."""
        whose = (
            f"organization {self.organization}"
            if self.project is None
            else f"project {self.project}"
        )
        return f"the policy of {whose} for {self.work_kind or 'any work'}"


@dataclass(frozen=True)
class IsolationTerms:
    """The rules that bind one pod.

    Attributes:
        policy: Their source, as text.
    """

    work_kind: WorkKind
    modes: frozenset[ServingMode]
    allow_shared_with_other_tenants: bool
    policy: str


def terms_for(
    policies: Iterable[Policy], *, organization: str, project: str, work_kind: str
) -> IsolationTerms:
    """Return what binds a pod: the most specific policy, else the default of its kind.

    A project's policy takes precedence over its organization's, and one for the kind over one for
    any.

    Args:
        policies: Every policy.
        organization: Slug.
        project: Slug.
        work_kind: A known kind, or "" for the tenant's own default.
    """
    found = {
        (policy.project, policy.work_kind): policy
        for policy in policies
        if policy.organization == organization and policy.project in {project, None}
    }
    kind = WorkKind(work_kind) if work_kind else _default_kind(found, project=project)
    ladder = ((project, kind), (project, None), (None, kind), (None, None))
    policy = next((found[rung] for rung in ladder if rung in found), None)
    if policy is None:
        return IsolationTerms(
            kind,
            DEFAULT_MODES[kind],
            allow_shared_with_other_tenants=False,
            policy=_default_of(kind),
        )
    return IsolationTerms(kind, policy.modes, policy.allow_shared_with_other_tenants, policy.holder)


def _default_of(kind: WorkKind) -> str:
    return f"the default for {kind}"


def _default_kind(
    found: Mapping[tuple[str | None, WorkKind | None], Policy], *, project: str
) -> WorkKind:
    for rung in ((project, None), (None, None)):
        policy = found.get(rung)
        if policy is not None and policy.default_kind is not None:
            return policy.default_kind
    return DEFAULT_KIND
