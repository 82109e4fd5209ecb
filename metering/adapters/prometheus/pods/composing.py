"""Pods as they are observed: requests, node, begin and end.

A contradiction is a defect of its pod; only data that most pods lack makes the response invalid.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime
from functools import lru_cache

from metering.adapters.prometheus import names as known
from metering.adapters.prometheus.body import MEMO_MAX
from metering.adapters.prometheus.nodes import NodeLabels
from metering.adapters.prometheus.pods.facts import PodFacts, PodHistory, times_of
from metering.adapters.prometheus.pods.requests import NO_UID, SeenPod
from metering.adapters.prometheus.samples import disagreement, impossible, to_seconds, to_time
from metering.protocols import ContainerKind, ContainerRequest, PodObservation


def compose_pods(
    seen: Mapping[str, SeenPod],
    facts: Mapping[str, PodFacts],
    history: PodHistory,
    nodes: NodeLabels,
) -> tuple[PodObservation, ...]:
    """Return the pods, by uid."""
    return tuple(
        _plain_pod(uid, pod, of_pod, nodes)
        if (of_pod := facts.get(uid)) is not None and not pod.defects and of_pod.is_plain
        else _PodComposition(uid, pod, of_pod, history).compose(nodes)
        for uid, pod in sorted(seen.items())
    )


def _plain_pod(uid: str, pod: SeenPod, facts: PodFacts, nodes: NodeLabels) -> PodObservation:
    """Return a pod that runs and of which all series agree, as nearly all do: nothing is chosen."""
    scheduled_at = next(at for at in facts.scheduled if isinstance(at, datetime))
    node = next(iter(facts.nodes), "")
    return PodObservation(
        uid=uid,
        namespace=pod.namespace,
        name=pod.name,
        node=node,
        requests=_requests(pod, facts.sidecars),
        scheduled_at=scheduled_at,
        first_seen_at=to_time(pod.first),
        last_seen_at=to_time(pod.last),
        owner=next(iter(facts.owners), ""),
        priority_class=next(iter(facts.priorities), ""),
        node_labels=nodes.nearest(node, to_seconds(scheduled_at) * 1000) if node else {},
        targets=tuple(sorted(filter(None, pod.targets))),
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
        times = times_of(scheduled)
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
        return max(times_of(self.facts.completed), default=None)

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


def _requests(pod: SeenPod, sidecars: AbstractSet[str]) -> tuple[ContainerRequest, ...]:
    """Return what containers requested, regular ones first, by name."""
    return tuple(
        _request(container, _kind(metric, container, sidecars), resource, units)
        for (metric, container, resource), units in sorted(pod.units.items())
        if units
    )


@lru_cache(maxsize=MEMO_MAX)
def _request(container: str, kind: ContainerKind, resource: str, units: int) -> ContainerRequest:
    """Return a request; pods that are made alike share it."""
    return ContainerRequest(container=container, kind=kind, resource=resource, units=units)


def _kind(metric: str, container: str, sidecars: AbstractSet[str]) -> ContainerKind:
    if metric == known.REQUESTS:
        return ContainerKind.REGULAR
    return ContainerKind.SIDECAR if container in sidecars else ContainerKind.INIT
