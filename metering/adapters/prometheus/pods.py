"""Pods that asked for a GPU: what they asked for, where, since when and until when.

Their sights come from `pod_sights`, and everything else that is to be known of them from here.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Final, NoReturn, TypeVar

from metering.adapters.prometheus import names as known
from metering.adapters.prometheus.names import Names
from metering.adapters.prometheus.nodes import LABEL_PREFIX, NodeLabels
from metering.adapters.prometheus.pod_sights import SeenPod, refuse_conflict
from metering.adapters.prometheus.samples import (
    Fact,
    Range,
    Series,
    read_timestamp,
    to_seconds,
    to_time,
)
from metering.protocols import ContainerKind, ContainerRequest, PodObservation
from tenants.domain.errors import SourceUnavailableError

T = TypeVar("T")
_NOTHING: Final[AbstractSet[str]] = frozenset()


@dataclass(slots=True)
class PodFacts:
    """What instant answers say of one uid, over all copies."""

    nodes: AbstractSet[str] = frozenset()
    priorities: AbstractSet[str] = frozenset()
    owners: AbstractSet[str] = frozenset()
    scheduled: AbstractSet[datetime] = frozenset()
    completed: AbstractSet[datetime] = frozenset()
    sidecars: AbstractSet[str] = frozenset()
    is_terminal: bool = False


@dataclass(frozen=True, slots=True)
class PodHistory:
    """What only raw samples tell: the first terminal sight and the first owner, by uid."""

    terminal: Mapping[str, int] = field(default_factory=dict)
    owners: Mapping[str, str] = field(default_factory=dict)


def read_facts(
    facts: Iterable[Fact], names: Names, *, user_label: str, within: Range
) -> dict[str, PodFacts]:
    """Return the facts of every pod, by uid.

    Args:
        facts: Rows of the answer; those of nodes and exporters are passed over.
        names: The cluster's spelling.
        user_label: Label that names the owning user; "" for none.
        within: What was asked, for judging timestamps.

    Raises:
        SourceUnavailableError: `bad_sample` for timestamps that cannot be believed.
    """
    pods: dict[str, PodFacts] = defaultdict(PodFacts)
    for fact in facts:
        uid = fact.labels.get("uid")
        if uid:
            _note(pods[uid], fact, names, user_label=user_label, within=within)
    return pods


def _note(pod: PodFacts, fact: Fact, names: Names, *, user_label: str, within: Range) -> None:
    match fact.metric:
        case known.POD_INFO:
            node = names.label(fact.labels, "node")
            pod.nodes |= {node} if node else _NOTHING
            pod.priorities |= {fact.labels.get("priority_class", "")}
        case known.POD_LABELS:
            pod.owners |= {owner_of(fact.labels, user_label)}
        case known.POD_PHASE:
            pod.is_terminal = pod.is_terminal or fact.value == "1"
        case known.SCHEDULED:
            pod.scheduled |= {read_timestamp(fact.value, within)}
        case known.COMPLETED:
            pod.completed |= {read_timestamp(fact.value, within)}
        case known.INIT_INFO if fact.labels.get("restart_policy") == "Always":
            pod.sidecars |= {names.label(fact.labels, "container")}


def owner_of(labels: Mapping[str, str], user_label: str) -> str:
    """Return the value of the user label, spelled raw, sanitised or as kube-state-metrics does."""
    if not user_label:
        return ""
    first, second = _owner_labels(user_label)
    return labels.get(first) or labels.get(second, "")


@lru_cache(maxsize=64)
def _owner_labels(user_label: str) -> tuple[str, str]:
    """Return the labels to look under, best first."""
    sanitised = "".join(c if c.isascii() and c.isalnum() else "_" for c in user_label)
    return f"{LABEL_PREFIX}{sanitised}", f"{LABEL_PREFIX}{sanitised.removeprefix(LABEL_PREFIX)}"


def questions(seen: Iterable[str], facts: Mapping[str, PodFacts]) -> tuple[str, ...]:
    """Return the metrics whose raw samples are needed to settle what instant answers left open."""
    pods = [facts[uid] for uid in seen if uid in facts]
    open_questions = {
        known.POD_PHASE: any(pod.is_terminal and not pod.completed for pod in pods),
        known.POD_LABELS: any(len(pod.owners) > 1 for pod in pods),
    }
    return tuple(metric for metric, is_open in open_questions.items() if is_open)


def read_history(details: Sequence[Series], *, user_label: str) -> PodHistory:
    """Return the first terminal sight and the first owner of each pod."""
    terminal: dict[str, int] = {}
    owners: dict[str, tuple[int, str]] = {}
    for one in details:
        uid = one.labels.get("uid", "")
        if one.metric == known.POD_PHASE and "1" in one.values:
            at = one.times[one.values.index("1")]
            terminal[uid] = min(at, terminal.get(uid, at))
        elif one.metric == known.POD_LABELS:
            claim = (one.times[0], owner_of(one.labels, user_label))
            owners[uid] = min(claim, owners.get(uid, claim))
    return PodHistory(terminal, {uid: owner for uid, (_, owner) in owners.items()})


def compose_pods(
    seen: Mapping[str, SeenPod],
    facts: Mapping[str, PodFacts],
    history: PodHistory,
    nodes: NodeLabels,
) -> tuple[PodObservation, ...]:
    """Return the pods, by uid.

    Raises:
        SourceUnavailableError: `incomplete_answer` when a pod is shown but nothing is said of it,
            `conflicting_series` when copies disagree about what cannot change.
    """
    missing = seen.keys() - facts.keys()
    bound = [facts[uid] for uid in seen if uid in facts and facts[uid].nodes]
    if missing or (bound and not any(pod.scheduled for pod in bound)):
        _refuse_incomplete()
    return tuple(
        _compose(uid, pod, facts[uid], history, nodes) for uid, pod in sorted(seen.items())
    )


def _compose(
    uid: str, pod: SeenPod, facts: PodFacts, history: PodHistory, nodes: NodeLabels
) -> PodObservation:
    scheduled_at = _only(facts.scheduled, "time of bind")
    # An unbound pod is on no node, whatever label the scrape job put in its place.
    node = _only(facts.nodes, "node") or "" if scheduled_at is not None else ""
    # Copies of a completion time differ only while containers still end: the last one counts.
    finished_at = max(facts.completed, default=None) if facts.is_terminal else None
    first, last = pod.first, pod.last
    bind = first if scheduled_at is None else to_seconds(scheduled_at) * 1000
    return PodObservation(
        uid=uid,
        namespace=pod.namespace,
        name=pod.name,
        node=node,
        requests=_requests(pod, facts.sidecars),
        scheduled_at=scheduled_at,
        first_seen_at=to_time(first),
        last_seen_at=to_time(last),
        finished_at=finished_at,
        terminal_seen_at=_terminal_seen_at(uid, pod, finished_at, history)
        if facts.is_terminal
        else None,
        owner=_owner(uid, facts, history),
        priority_class=_only(facts.priorities - {""}, "priority class") or "",
        node_labels=nodes.nearest(node, bind) if node else {},
    )


def _terminal_seen_at(
    uid: str, pod: SeenPod, finished_at: datetime | None, history: PodHistory
) -> datetime:
    """Return the first terminal sight: from raw samples, else the first after the known end.

    The phase turns terminal in the same update that tells the last container's end, so the raw
    samples are needed only where no end is told.
    """
    if finished_at is None:
        if uid not in history.terminal:
            _refuse_incomplete()
        return to_time(history.terminal[uid])
    return to_time(pod.first_from(to_seconds(finished_at) * 1000))


def _owner(uid: str, facts: PodFacts, history: PodHistory) -> str:
    """Return the owner; where the label changed, the first one seen."""
    if len(facts.owners) <= 1:
        return next(iter(facts.owners), "")
    if uid not in history.owners:
        _refuse_incomplete()
    return history.owners[uid]


def _requests(pod: SeenPod, sidecars: AbstractSet[str]) -> tuple[ContainerRequest, ...]:
    """Return what containers asked for, regular ones first, by name."""
    return tuple(
        ContainerRequest(
            container=container,
            kind=_kind(metric, container, sidecars),
            resource=resource,
            units=units,
        )
        for (metric, container, resource), units in sorted(pod.units.items())
        if units
    )


def _kind(metric: str, container: str, sidecars: AbstractSet[str]) -> ContainerKind:
    if metric == known.REQUESTS:
        return ContainerKind.REGULAR
    return ContainerKind.SIDECAR if container in sidecars else ContainerKind.INIT


def _only(values: AbstractSet[T], what: str) -> T | None:
    if len(values) > 1:
        refuse_conflict(what)
    return next(iter(values), None)


def _refuse_incomplete() -> NoReturn:
    raise SourceUnavailableError(
        "kube-state-metrics shows requests of pods, but not all that is to be known of them.",
        reason="incomplete_answer",
    )
