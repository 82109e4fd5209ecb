"""Preemption: choose the workloads to end so that usage fits the limits again, with reasons.

A gang is preempted as a whole or not at all. Preemptible gangs are first, then those above the
limit of their own project or user, then the others; within each class the lowest priority, then the
newest, which loses the least work. The choice is minimal: without any one victim an overage would
remain.

Source: reference of metering, "Lowering and preemption"; ADR 0023.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import IntEnum
from typing import Final

from quotas.domain.preemption.overage import Overage, OverageKind, PodUnits, counts

SYSTEM_PRIORITY_MIN: Final = 2_000_000_000
"""From here on PriorityClasses are the system's. Source: Kubernetes, "Pod Priority"."""


GANG_KINDS: Final = frozenset(
    {
        "Job",
        "JobSet",
        "LeaderWorkerSet",
        "MPIJob",
        "PodGroup",
        "PyTorchJob",
        "RayJob",
        "TFJob",
    }
)
"""Controllers whose pods are useless without each other."""
GangKey = tuple[str, str, str]
"""Cluster, namespace, and what holds a gang together."""


@dataclass(frozen=True)
class Candidate:
    """One pod that holds units, or waits for units with its gang.

    Attributes:
        controller: "Kind/name"; "" without one.
        priority: The value of its PriorityClass; 0 when none is known.
        holdings: What it holds; empty while it is not bound to a node.
        is_ending: Whether its deletion was requested: its units count as free.
        protection: Why it may not be preempted now; "" when it may.
        project: Its project.
        username: The user it counts for.
        claims: Names of the device claims it uses: pods that share one are preempted with it.
    """

    cluster: str
    namespace: str
    pod_name: str
    pod_uid: str
    controller: str
    priority_class: str
    priority: int
    began_at: datetime
    holdings: tuple[PodUnits, ...]
    is_ending: bool = False
    protection: str = ""
    project: str = ""
    username: str = ""
    claims: frozenset[str] = frozenset()


def gang_of(pod: Candidate) -> GangKey:
    """Return the key of a gang: the gang controller, or the pod alone."""
    kind = pod.controller.partition("/")[0]
    name = pod.controller if kind in GANG_KINDS else f"Pod/{pod.pod_name}/{pod.pod_uid}"
    return pod.cluster, pod.namespace, name


def gangs_of(pods: Iterable[Candidate]) -> dict[GangKey, list[Candidate]]:
    """Return pods by gang: of one gang controller, or joined by device claims.

    A claim that several pods share is free when all of them are gone, so it joins their gangs.
    """
    everybody = list(pods)
    roots: dict[GangKey, GangKey] = {}
    for pod in everybody:
        own = _root(roots, gang_of(pod))
        for claim in sorted(pod.claims):
            other = _root(roots, (pod.cluster, pod.namespace, f"ResourceClaim/{claim}"))
            # The smaller name leads, whatever the order of the pods.
            roots[max(own, other)] = min(own, other)
            own = min(own, other)
    gangs: dict[GangKey, list[Candidate]] = {}
    for pod in everybody:
        gangs.setdefault(_root(roots, gang_of(pod)), []).append(pod)
    return gangs


def _root(roots: dict[GangKey, GangKey], key: GangKey) -> GangKey:
    """Return the key that leads the gang of a key."""
    leader = roots.setdefault(key, key)
    while roots[leader] != leader:
        leader = roots[leader]
    roots[key] = leader
    return leader


class Tier(IntEnum):
    """Order of preemption."""

    BURST = 0
    BORROWED = 1
    NOMINAL = 2


_TIERS = {
    Tier.BURST: "preemptible",
    Tier.BORROWED: "over the limit of its own project or user",
    Tier.NOMINAL: "within its project's limit",
}


@dataclass(frozen=True)
class Victim:
    """A gang to preempt.

    Attributes:
        pods: All of its pods that are not ending anyway, by name.
        units_freed: For each overage of the plan, in that order.
        why: The reason, as text.
    """

    pods: tuple[Candidate, ...]
    tier: Tier
    units_freed: tuple[int, ...]
    why: str


@dataclass(frozen=True)
class Remainder:
    """An overage that no choice of victims ends."""

    overage: Overage
    units: int
    why: str


@dataclass(frozen=True)
class Choice:
    """The victims in order of preemption, and the overages that remain."""

    victims: tuple[Victim, ...]
    remainders: tuple[Remainder, ...]


@dataclass(frozen=True)
class _Gang:
    key: GangKey
    pods: tuple[Candidate, ...]
    freed: tuple[int, ...]
    tier: Tier
    spared: str

    @property
    def rank(self) -> tuple[int, int, int, GangKey]:
        """Return the sort key: the smaller is preempted first."""
        priority = max(pod.priority for pod in self.pods)
        began_at = min(pod.began_at for pod in self.pods)
        return self.tier, priority, -_microseconds(began_at), self.key


def choose_victims(overages: Sequence[Overage], candidates: Iterable[Candidate]) -> Choice:
    """Return the shortest run of the order of preemption that ends every overage, if possible.

    Args:
        overages: Computed over all holdings, ending pods included.
        candidates: Every pod of the organization that holds units, or waits for its gang.
    """
    pods = tuple(candidates)
    over = tuple(max(0, one.units - _ending(one, pods)) for one in overages)
    gangs = sorted(_gangs(overages, pods), key=lambda gang: gang.rank)
    free = [gang for gang in gangs if not gang.spared and any(gang.freed)]
    need = _least(over, _sum(free, len(over)))
    chosen = _without_needless(_greedy(free, need), need)
    return Choice(
        victims=tuple(_victim(gang, overages) for gang in chosen),
        remainders=tuple(
            _remainder(overage, units=units - freeable, place=place, gangs=gangs)
            for place, (overage, units, freeable) in enumerate(
                zip(overages, over, need, strict=True)
            )
            if units > freeable
        ),
    )


def is_needed(
    pods: Iterable[Candidate], overages: Sequence[Overage], everybody: Iterable[Candidate]
) -> bool:
    """Whether a gang still frees something that is over, after what is ending anyway."""
    gang, all_pods = tuple(pods), tuple(everybody)
    return any(one.units > _ending(one, all_pods) and _units(one, gang) > 0 for one in overages)


def are_settled(overages: Iterable[Overage], everybody: Iterable[Candidate]) -> bool:
    """Whether nothing will be over once the pods that are ending are gone."""
    pods = tuple(everybody)
    return all(one.units <= _ending(one, pods) for one in overages)


def spared_because(pod: Candidate) -> str:
    """Return why a pod may not go; "" when it may."""
    if pod.priority >= SYSTEM_PRIORITY_MIN or pod.priority_class.startswith("system-"):
        return "of the system"
    return pod.protection


def _gangs(overages: Sequence[Overage], pods: Sequence[Candidate]) -> Iterable[_Gang]:
    for key, members in gangs_of(pods).items():
        left = tuple(
            sorted((one for one in members if not one.is_ending), key=lambda one: one.pod_name)
        )
        if left:
            freed = tuple(_units(one, left) for one in overages)
            spared = min(filter(None, map(spared_because, members)), default="")
            yield _Gang(key, left, freed, _tier(left, overages, freed), spared)


def _tier(pods: Sequence[Candidate], overages: Sequence[Overage], freed: Sequence[int]) -> Tier:
    """Return the tier; a gang is as preemptible as its least preemptible pod."""
    holdings = [one for pod in pods for one in pod.holdings]
    if holdings and all(one.is_burst for one in holdings):
        return Tier.BURST
    is_borrowed = any(
        units and one.kind is OverageKind.NOMINAL and one.selector.is_narrow
        for one, units in zip(overages, freed, strict=True)
    )
    return Tier.BORROWED if is_borrowed else Tier.NOMINAL


def _greedy(gangs: Sequence[_Gang], need: Sequence[int]) -> list[_Gang]:
    chosen: list[_Gang] = []
    left = list(need)
    for gang in gangs:
        if any(units and open_ > 0 for units, open_ in zip(gang.freed, left, strict=True)):
            chosen.append(gang)
            left = [open_ - units for open_, units in zip(left, gang.freed, strict=True)]
    return chosen


def _without_needless(chosen: list[_Gang], need: Sequence[int]) -> list[_Gang]:
    """Remove victims that are not needed, beginning with the last in order."""
    kept = list(chosen)
    for gang in reversed(chosen):
        others = [one for one in kept if one is not gang]
        if _covers(others, need):
            kept = others
    return kept


def _covers(gangs: Sequence[_Gang], need: Sequence[int]) -> bool:
    return all(freed >= units for freed, units in zip(_sum(gangs, len(need)), need, strict=True))


def _sum(gangs: Sequence[_Gang], length: int) -> tuple[int, ...]:
    return tuple(sum(gang.freed[place] for gang in gangs) for place in range(length))


def _least(left: Sequence[int], right: Sequence[int]) -> tuple[int, ...]:
    return tuple(min(pair) for pair in zip(left, right, strict=True))


def _units(overage: Overage, pods: Iterable[Candidate]) -> int:
    return sum(
        one.units
        for pod in pods
        for one in pod.holdings
        if counts(overage.kind, overage.selector, one)
    )


def _ending(overage: Overage, pods: Iterable[Candidate]) -> int:
    return _units(overage, (pod for pod in pods if pod.is_ending))


def _victim(gang: _Gang, overages: Sequence[Overage]) -> Victim:
    priority = max(pod.priority for pod in gang.pods)
    began_at = min(pod.began_at for pod in gang.pods)
    frees = "; ".join(
        f"frees {units} of {one.sentence}"
        for one, units in zip(overages, gang.freed, strict=True)
        if units
    )
    who = f"One of {len(gang.pods)} pods that go together, " if len(gang.pods) > 1 else ""
    why = (
        f"{who}{_TIERS[gang.tier]}, priority {priority}, began {began_at:%Y-%m-%d %H:%M} UTC: "
        f"{frees}."
    )
    return Victim(gang.pods, gang.tier, gang.freed, why[0].upper() + why[1:])


def _remainder(overage: Overage, *, units: int, place: int, gangs: Iterable[_Gang]) -> Remainder:
    spared: dict[str, int] = {}
    for gang in gangs:
        if gang.spared and gang.freed[place]:
            spared[gang.spared] = spared.get(gang.spared, 0) + gang.freed[place]
    reasons = ", ".join(f"{count} {why}" for why, count in sorted(spared.items()))
    return Remainder(
        replace(overage, units=units), units, f"May not go: {reasons}." if reasons else NOBODY_KNOWN
    )


NOBODY_KNOWN: Final = "No known pod holds it."


def _microseconds(at: datetime) -> int:
    """Return whole microseconds since the epoch of the calendar; no float is needed to order."""
    delta = at - datetime.min.replace(tzinfo=at.tzinfo)
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
