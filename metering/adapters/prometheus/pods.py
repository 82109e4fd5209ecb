"""Pods that requested a GPU: their requests, node, begin and end.

kube-state-metrics shows a request for as long as the object exists. Series of one uid are one pod,
however many copies of Prometheus, restarts or shards of the exporter split them; a pod name that is
used again is another pod. A contradiction is a defect of its pod; only data that most pods lack
makes the response invalid.
"""

import hashlib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from sys import intern
from typing import Final

from metering.adapters.prometheus import names as known
from metering.adapters.prometheus.names import Names
from metering.adapters.prometheus.nodes import NodeLabels, owner_of
from metering.adapters.prometheus.samples import (
    Fact,
    Range,
    Series,
    disagreement,
    distinct,
    impossible,
    read_timestamp,
    read_units,
    to_seconds,
    to_time,
)
from metering.protocols import ContainerKind, ContainerRequest, PodObservation
from tenants.domain.errors import SourceUnavailableError

REQUEST_METRICS: Final = (known.REQUESTS, known.INIT_REQUESTS)
IMPOSSIBLE_UNITS: Final = -1
"""Replaces an impossible amount, so that the pod is not treated as one without a request."""
NO_UID: Final = "Its request carries no uid."


@dataclass(slots=True)
class SeenPod:
    """One uid over all series that carry it."""

    namespace: str
    name: str
    first: int
    last: int
    times: list[Sequence[int]] = field(default_factory=list)
    """Sample times in Unix milliseconds, oldest first per series; lists may be shared."""
    units: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """By metric, container and resource; the largest where series disagree."""
    targets: tuple[str, ...] = ()
    """Names of the scrape targets that carried it."""
    nodes: dict[str, int] = field(default_factory=dict)
    """Each node its requests named, with the last time in Unix milliseconds."""
    defects: AbstractSet[str] = frozenset()
    """What of it cannot be or contradicts itself, one sentence each."""

    def first_from(self, moment: int) -> int:
        """Return the first sample at or after a moment, else the last one."""
        later = (bisect_left(times, moment) for times in self.times)
        found = [times[at] for times, at in zip(self.times, later, strict=True) if at < len(times)]
        return min(found, default=self.last)


def read_observations(
    observations: Iterable[Series], names: Names, *, is_part: bool = False
) -> dict[str, SeenPod]:
    """Return the pods that requested a GPU, by uid.

    A request without a uid is skipped where another exporter shows the same pod with one; else it
    is a pod of its own with a defect, under a uid that is made of its names.

    Raises:
        SourceUnavailableError: `bad_answer` when no request carries a uid.
    """
    pods: dict[str, SeenPod] = {}
    nameless: dict[str, SeenPod] = {}
    for one in observations:
        if one.metric in REQUEST_METRICS:
            uid = one.labels.get("uid", "")
            _merge(pods if uid else nameless, uid or _made_uid(one, names), one, names)
    if nameless and not pods and not is_part:
        raise SourceUnavailableError("No request carries a uid.", reason="bad_answer")
    identified = {(pod.namespace, pod.name) for pod in pods.values()}
    for uid, pod in nameless.items():
        if (pod.namespace, pod.name) not in identified:
            pod.defects |= {NO_UID}
            pods[uid] = pod
    return {uid: pod for uid, pod in sorted(pods.items()) if any(pod.units.values())}


def _made_uid(one: Series, names: Names) -> str:
    named = f"{names.label(one.labels, 'namespace')}/{names.label(one.labels, 'pod')}"
    return f"no-uid-{hashlib.sha256(named.encode()).hexdigest()[:32]}"


def _merge(pods: dict[str, SeenPod], uid: str, one: Series, names: Names) -> None:
    namespace, name = names.label(one.labels, "namespace"), names.label(one.labels, "pod")
    pod = pods.get(uid)
    if pod is None:
        pod = pods[uid] = SeenPod(namespace, name, one.times[0], one.times[-1])
    if (pod.namespace, pod.name) != (namespace, name):
        texts = [f"{pod.namespace}/{pod.name}", f"{namespace}/{name}"]
        pod.defects |= {disagreement("name", texts)}
    pod.first, pod.last = min(pod.first, one.times[0]), max(pod.last, one.times[-1])
    pod.times.append(one.times)
    target = intern(names.label(one.labels, "instance"))
    if target not in pod.targets:
        pod.targets = (*pod.targets, target)
    node = names.label(one.labels, "node")
    if node:
        pod.nodes[node] = max(one.times[-1], pod.nodes.get(node, 0))
    _merge_units(pod, one, names)


def _merge_units(pod: SeenPod, one: Series, names: Names) -> None:
    container, resource = names.label(one.labels, "container"), one.labels.get("resource", "")
    key = (one.metric, container, resource)
    what = f"request of container {container} for {resource}"
    for text in distinct(one.values):
        units = read_units(text)
        if units is None:
            pod.defects |= {impossible(what, text)}
            pod.units.setdefault(key, IMPOSSIBLE_UNITS)
            continue
        former = pod.units.setdefault(key, units)
        if former not in {units, IMPOSSIBLE_UNITS}:
            pod.defects |= {disagreement(what, [str(former), str(units)])}
        pod.units[key] = max(former, units)


@dataclass(slots=True)
class PodFacts:
    """Facts of one uid from instant queries, over all copies.

    Attributes:
        created: Times of creation, which only the clocks are compared by.
        scheduled: Times of bind, as text where it is no time that can be.
        completed: Completion times, likewise.
    """

    nodes: AbstractSet[str] = frozenset()
    priorities: AbstractSet[str] = frozenset()
    owners: AbstractSet[str] = frozenset()
    created: AbstractSet[datetime] = frozenset()
    scheduled: AbstractSet[datetime | str] = frozenset()
    completed: AbstractSet[datetime | str] = frozenset()
    sidecars: AbstractSet[str] = frozenset()
    is_terminal: bool = False


@dataclass(frozen=True, slots=True)
class PodHistory:
    """Facts found only in raw samples: the first terminal sample and the first owner, by uid."""

    terminal: Mapping[str, int] = field(default_factory=dict)
    owners: Mapping[str, str] = field(default_factory=dict)


def read_facts(
    facts: Iterable[Fact], names: Names, *, user_label: str, within: Range
) -> dict[str, PodFacts]:
    """Return the facts of every pod, by uid.

    Args:
        facts: Rows of the response; those of nodes and exporters are skipped.
        names: The cluster's spelling.
        user_label: Label that names the owning user; "" for none.
        within: The queried range, for checking timestamps.
    """
    pods: dict[str, PodFacts] = defaultdict(PodFacts)
    for fact in facts:
        uid = fact.labels.get("uid")
        if uid:
            note_fact(pods[uid], fact, names, user_label=user_label, within=within)
    return pods


def note_fact(pod: PodFacts, fact: Fact, names: Names, *, user_label: str, within: Range) -> None:
    """Add one row to the facts of its pod; see `read_facts`."""
    match fact.metric:
        case known.POD_INFO:
            node = names.label(fact.labels, "node")
            pod.nodes |= {node} if node else frozenset()
            pod.priorities |= {fact.labels.get("priority_class", "")}
        case known.POD_LABELS:
            pod.owners |= {owner_of(fact.labels, user_label)}
        case known.POD_PHASE:
            pod.is_terminal = pod.is_terminal or fact.value == "1"
        case known.CREATED:
            created_at = read_timestamp(fact.value, within)
            pod.created |= {created_at} if created_at is not None else frozenset()
        case known.SCHEDULED:
            pod.scheduled |= {read_timestamp(fact.value, within) or fact.value}
        case known.COMPLETED:
            pod.completed |= {read_timestamp(fact.value, within) or fact.value}
        case known.INIT_INFO if fact.labels.get("restart_policy") == "Always":
            pod.sidecars |= {names.label(fact.labels, "container")}


def questions(seen: Iterable[str], facts: Mapping[str, PodFacts]) -> tuple[str, ...]:
    """Return the metrics whose raw samples are needed where instant queries are not enough."""
    pods = [facts[uid] for uid in seen if uid in facts]
    open_questions = {
        known.POD_PHASE: any(pod.is_terminal and not _times(pod.completed) for pod in pods),
        known.POD_LABELS: any(len(pod.owners) > 1 for pod in pods),
    }
    return tuple(metric for metric, is_open in open_questions.items() if is_open)


def read_history(details: Iterable[Series], *, user_label: str) -> PodHistory:
    """Return the first terminal sample and the first owner of each pod."""
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
    """Return the pods, by uid."""
    return tuple(
        _PodComposition(uid, pod, facts.get(uid), history).compose(nodes)
        for uid, pod in sorted(seen.items())
    )


class _PodComposition:
    """One pod while it is composed, with what of it contradicts itself.

    Args:
        facts: Its facts from instant queries; None without any.
    """

    def __init__(self, uid: str, pod: SeenPod, facts: PodFacts | None, history: PodHistory) -> None:
        self.uid = uid
        self.pod = pod
        self.facts = facts or PodFacts()
        self.history = history
        self.defects = set(pod.defects)
        self.is_request_alone = facts is None
        self.is_end_known = not self.is_request_alone
        if facts is None and NO_UID not in pod.defects:
            self.defects.add("Nothing but its request is reported.")

    def compose(self, nodes: NodeLabels) -> PodObservation:
        """Return the pod; of values that contradict each other the one that means most use."""
        pod, facts = self.pod, self.facts
        scheduled_at = self._scheduled_at()
        first, last = pod.first, pod.last
        bind = first if scheduled_at is None else to_seconds(scheduled_at) * 1000
        # An unbound pod is on no node, whatever node label the scrape job added.
        node = self._node(bind) if scheduled_at is not None else ""
        finished_at = self._finished_at()
        terminal_seen_at = self._terminal_seen_at(finished_at) if facts.is_terminal else None
        owner, priority_class = self._owner(), self._priority_class()
        return PodObservation(
            uid=self.uid,
            namespace=pod.namespace,
            name=pod.name,
            node=node,
            requests=_requests(pod, facts.sidecars),
            scheduled_at=scheduled_at,
            first_seen_at=to_time(first),
            last_seen_at=to_time(last),
            finished_at=finished_at,
            terminal_seen_at=terminal_seen_at,
            owner=owner,
            priority_class=priority_class,
            node_labels=nodes.nearest(node, bind) if node else {},
            targets=tuple(sorted(filter(None, pod.targets))),
            defects=tuple(sorted(self.defects)),
            is_end_known=self.is_end_known,
        )

    def _scheduled_at(self) -> datetime | None:
        """Return the earliest time of bind; the first sample where none that is reported can be.

        A pod of which only its request is reported may have been bound if that names a node.
        """
        if self.is_request_alone and self.pod.nodes:
            return to_time(self.pod.first)
        scheduled = self.facts.scheduled
        times = _times(scheduled)
        if len(times) < len(scheduled):
            self._note_impossible("time of bind", scheduled)
        if len(times) > 1:
            self._note_disagreement("time of bind", {at.isoformat() for at in times})
        return min(times, default=to_time(self.pod.first) if scheduled else None)

    def _node(self, bind: int) -> str:
        """Return the node; what only series from before the bind name is the scrape job's label."""
        named = self.pod.nodes.keys() if self.is_request_alone else self.facts.nodes
        if len(named) <= 1:
            return next(iter(named), "")
        left = {node for node, last in self.pod.nodes.items() if last < bind}
        nodes = named - left or named
        self._note_disagreement("node", nodes)
        return min(nodes)

    def _finished_at(self) -> datetime | None:
        """Return the last container's end, or None for a running pod, where it means nothing."""
        if not self.facts.is_terminal:
            return None
        self._note_impossible("completion time", self.facts.completed)
        # Copies of a completion time differ only while containers still end: the last one counts.
        return max(_times(self.facts.completed), default=None)

    def _terminal_seen_at(self, finished_at: datetime | None) -> datetime | None:
        """Return the first terminal sample: from raw samples, else the first after the known end.

        The same update sets the terminal phase and the last container's end, so the raw samples are
        needed only where no end is exported.
        """
        if finished_at is not None:
            return to_time(self.pod.first_from(to_seconds(finished_at) * 1000))
        if self.uid in self.history.terminal:
            return to_time(self.history.terminal[self.uid])
        self.defects.add("It has ended, and no sample shows since when.")
        self.is_end_known = False
        return None

    def _owner(self) -> str:
        """Return the owner; where the label changed, the first value."""
        owners = self.facts.owners
        if len(owners) <= 1:
            return next(iter(owners), "")
        if self.uid not in self.history.owners:
            self._note_disagreement("owner", owners)
        return self.history.owners.get(self.uid, min(owners))

    def _priority_class(self) -> str:
        priorities = self.facts.priorities
        if len(priorities) > 1:
            priorities = priorities - {""}
            self._note_disagreement("priority class", priorities)
        return min(priorities, default="")

    def _note_disagreement(self, what: str, texts: AbstractSet[str]) -> None:
        if len(texts) > 1:
            self.defects.add(disagreement(what, texts))

    def _note_impossible(self, what: str, values: AbstractSet[datetime | str]) -> None:
        self.defects |= {impossible(what, text) for text in values if isinstance(text, str)}


def _times(values: AbstractSet[datetime | str]) -> AbstractSet[datetime]:
    return {at for at in values if isinstance(at, datetime)}


def _requests(pod: SeenPod, sidecars: AbstractSet[str]) -> tuple[ContainerRequest, ...]:
    """Return what containers requested, regular ones first, by name."""
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
