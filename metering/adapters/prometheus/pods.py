"""Pods that asked for a GPU: what they asked for, where, since when and until when.

Their requests are also their sights: kube-state-metrics shows a request for as long as the object
exists. Series of one uid are one pod, however many copies of Prometheus, restarts or shards of
the exporter split them; a pod name that is used again is another pod.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NoReturn, TypeVar

from metering.adapters.prometheus import names as known
from metering.adapters.prometheus.names import Names
from metering.adapters.prometheus.nodes import NodeLabels, plain_labels
from metering.adapters.prometheus.sample_texts import distinct
from metering.adapters.prometheus.samples import (
    Fact,
    Range,
    Series,
    read_timestamp,
    read_units,
    to_seconds,
    to_time,
)
from metering.protocols import ContainerKind, ContainerRequest, PodObservation
from tenants.domain.errors import SourceUnavailableError

T = TypeVar("T")
REQUEST_METRICS: Final = (known.REQUESTS, known.INIT_REQUESTS)


@dataclass(slots=True)
class SeenPod:
    """One uid over all series that carry it."""

    namespace: str
    name: str
    times: list[Sequence[int]] = field(default_factory=list)
    """Sights in Unix milliseconds: of each series oldest first, shared with others."""
    units: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """By metric, container and resource."""

    @property
    def first(self) -> int:
        """Return the first sight."""
        return min(times[0] for times in self.times)

    @property
    def last(self) -> int:
        """Return the last sight."""
        return max(times[-1] for times in self.times)

    def first_from(self, moment: int) -> int:
        """Return the first sight that is not before a moment, else the last one."""
        later = (bisect_left(times, moment) for times in self.times)
        found = [times[at] for times, at in zip(self.times, later, strict=True) if at < len(times)]
        return min(found, default=self.last)


@dataclass(slots=True)
class PodFacts:
    """What instant answers say of one uid, over all copies."""

    nodes: set[str] = field(default_factory=set)
    priorities: set[str] = field(default_factory=set)
    owners: set[str] = field(default_factory=set)
    scheduled: set[datetime] = field(default_factory=set)
    completed: set[datetime] = field(default_factory=set)
    sidecars: set[str] = field(default_factory=set)
    is_terminal: bool = False


@dataclass(frozen=True, slots=True)
class PodHistory:
    """What only raw samples tell: the first terminal sight and the first owner, by uid."""

    terminal: Mapping[str, int] = field(default_factory=dict)
    owners: Mapping[str, str] = field(default_factory=dict)


def read_sights(sights: Iterable[Series], names: Names) -> dict[str, SeenPod]:
    """Return the pods that asked for a GPU, by uid.

    Raises:
        SourceUnavailableError: `bad_sample` for units that cannot be believed,
            `conflicting_series` when copies disagree about a request.
    """
    pods: dict[str, SeenPod] = {}
    for one in sights:
        if one.metric in REQUEST_METRICS:
            uid = one.labels.get("uid", "")
            if not uid:
                raise SourceUnavailableError("A request carries no uid.", reason="bad_answer")
            _merge(pods, uid, one, names)
    return {uid: pod for uid, pod in sorted(pods.items()) if any(pod.units.values())}


def _merge(pods: dict[str, SeenPod], uid: str, one: Series, names: Names) -> None:
    namespace, name = names.label(one.labels, "namespace"), names.label(one.labels, "pod")
    pod = pods.get(uid)
    if pod is None:
        pod = pods[uid] = SeenPod(namespace, name)
    if (pod.namespace, pod.name) != (namespace, name):
        _refuse_conflict("name")
    pod.times.append(one.times)
    key = (one.metric, names.label(one.labels, "container"), one.labels.get("resource", ""))
    for text in distinct(one.values):
        units = read_units(text)
        if pod.units.setdefault(key, units) != units:
            _refuse_conflict("request")


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
            pod.nodes.update({node} if node else ())
            pod.priorities.add(fact.labels.get("priority_class", ""))
        case known.POD_LABELS:
            pod.owners.add(owner_of(fact.labels, user_label))
        case known.POD_PHASE:
            pod.is_terminal = pod.is_terminal or fact.value == "1"
        case known.SCHEDULED:
            pod.scheduled.add(read_timestamp(fact.value, within))
        case known.COMPLETED:
            pod.completed.add(read_timestamp(fact.value, within))
        case known.INIT_INFO if fact.labels.get("restart_policy") == "Always":
            pod.sidecars.add(names.label(fact.labels, "container"))


def owner_of(labels: Mapping[str, str], user_label: str) -> str:
    """Return the value of the user label, spelled raw, sanitised or as kube-state-metrics does."""
    if not user_label:
        return ""
    sanitised = "".join(c if c.isascii() and c.isalnum() else "_" for c in user_label)
    own = plain_labels(labels)
    return own.get(sanitised) or own.get(sanitised.removeprefix("label_"), "")


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


def _requests(pod: SeenPod, sidecars: set[str]) -> tuple[ContainerRequest, ...]:
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


def _kind(metric: str, container: str, sidecars: set[str]) -> ContainerKind:
    if metric == known.REQUESTS:
        return ContainerKind.REGULAR
    return ContainerKind.SIDECAR if container in sidecars else ContainerKind.INIT


def _only(values: set[T], what: str) -> T | None:
    if len(values) > 1:
        _refuse_conflict(what)
    return next(iter(values), None)


def _refuse_conflict(what: str) -> NoReturn:
    raise SourceUnavailableError(
        f"Series of one pod disagree about its {what}.", reason="conflicting_series"
    )


def _refuse_incomplete() -> NoReturn:
    raise SourceUnavailableError(
        "kube-state-metrics shows requests of pods, but not all that is to be known of them.",
        reason="incomplete_answer",
    )
