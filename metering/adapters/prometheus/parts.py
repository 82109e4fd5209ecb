"""A window in parts: all but its pods, the pods of one part, and what all parts show together.

Checks that need all pods read traces: what they ask of a pod, kept from the time it was read.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from sys import intern
from typing import Final

import msgspec

from metering.adapters.prometheus import names as known
from metering.adapters.prometheus.clock import (
    measure_skew,
    node_on_api_clock,
    read_clock,
    ticks_on_api_clock,
)
from metering.adapters.prometheus.completeness import check_one_cluster, refuse_incomplete
from metering.adapters.prometheus.names import Names, names_of
from metering.adapters.prometheus.nodes import (
    Hours,
    LabelSet,
    NodeLabels,
    read_models,
    read_nodes,
)
from metering.adapters.prometheus.pods.composing import compose_pods
from metering.adapters.prometheus.pods.facts import PodFacts, PodHistory, questions, read_history
from metering.adapters.prometheus.pods.queries import PodQueries, read_labels
from metering.adapters.prometheus.pods.requests import NO_UID, SeenPod
from metering.adapters.prometheus.samples import Series, to_seconds, to_time
from metering.adapters.prometheus.targets import check_targets, missed_shards
from metering.protocols import ClusterTarget, Observation, ObservedSpan, ScrapeTarget
from metering.protocols.parts import Frame, PartObservation, Settled
from tenants.domain.errors import SourceUnavailableError


class PodTrace(msgspec.Struct, array_like=True, gc=False):
    """What the checks of all pods together ask of one.

    Attributes:
        first: Its first sample, Unix milliseconds.
        last: Its last sample, likewise.
        created: Unix seconds; None where it is not known.
        has_uid: Whether its uid is its own, and not made of its names.
    """

    uid: str
    namespace: str
    name: str
    first: int
    last: int
    targets: tuple[str, ...]
    nodes: tuple[str, ...]
    created: int | None
    has_uid: bool
    has_facts: bool
    is_bound: bool
    is_scheduled: bool

    @property
    def defects(self) -> frozenset[str]:
        """Return what of it cannot be, as far as the checks of all pods ask."""
        return _NONE if self.has_uid else _NO_UID


class OfferTrace(msgspec.Struct, array_like=True, gc=False):
    """From when to when a target showed an offer of a node, Unix milliseconds."""

    node: str
    target: str
    first: int
    last: int


class FrameTrace(msgspec.Struct):
    """What of a window's nodes each part and the checks of all pods together need.

    Attributes:
        labels: By node, its sets of labels, still encoded: a part needs those of some nodes.
        beside: As in `NodeLabels`.
    """

    offers: msgspec.Raw
    labels: dict[str, msgspec.Raw] = {}
    beside: int = 0


class _OffersAlone(msgspec.Struct):
    """A `FrameTrace` without its labels."""

    offers: msgspec.Raw


_POD_TRACES: Final = msgspec.msgpack.Decoder(list[PodTrace])
_OFFER_TRACES: Final = msgspec.msgpack.Decoder(list[OfferTrace])
_FRAME_TRACES: Final = msgspec.msgpack.Decoder(FrameTrace)
_OFFERS_ALONE: Final = msgspec.msgpack.Decoder(_OffersAlone)
_LABEL_SETS: Final = msgspec.msgpack.Decoder(tuple[LabelSet, ...])


def read_frame(
    asked: PodQueries, target: ClusterTarget, span: ObservedSpan, *, skew: int, source: str
) -> Frame:
    """Return what the queries around a window show of all but its pods.

    Args:
        asked: The queries, about no pods.
        target: The cluster.
        span: The window.
        skew: By how many seconds Prometheus' clock is taken to be ahead of the API's.
        source: Name of the source.

    Raises:
        SourceUnavailableError: The response is missing, partial, has a warning or is invalid.
    """
    names, scrape = asked.plan.names, target.scrape_interval_seconds
    start, end = to_seconds(span.start_at), to_seconds(span.end_at)
    others = asked.observations().others
    query = asked.plan.serving(asked.around.seconds)
    at = asked.around.asked_seconds * 1000
    serving = [
        Series(known.REQUESTS, labels, (at,), ("1",))
        for labels, _ in asked.asking.rows(query, asked.around)
    ]
    clock = read_clock([*others, *serving], names, scrape_seconds=scrape)
    facts = asked.facts(user_label=target.user_label)
    with_pods = {names.label(one.labels, "node") for one in serving} - {""}
    labels, _ = read_labels(asked, target, facts, (), with_pods)
    hours = Hours((start + skew) * 1000, (end + skew) * 1000, scrape * 1000)
    nodes = read_nodes(others, labels, names, hours)
    targets = check_targets(
        asked.asking,
        asked.plan,
        asked.around,
        last_scraped=asked.targets(),
        scraped=clock.targets,
        scrape_seconds=scrape,
    )
    shards = missed_shards(others, names, scrape_seconds=scrape)
    observation = Observation(
        cluster=target.slug,
        start_at=span.start_at,
        end_at=span.end_at,
        as_of=to_time(at),
        source=source,
        ticks=ticks_on_api_clock(clock.ticks, skew),
        expected_ticks=(end - start) // scrape,
        pods=(),
        nodes=tuple(node_on_api_clock(node, skew) for node in nodes),
        evidence=tuple(asked.asking.evidence),
        targets=tuple(
            replace(one, ticks=ticks_on_api_clock(one.ticks, skew)) for one in (*targets, *shards)
        ),
        clock_skew_seconds=skew,
        device_models=read_models(facts.others, names),
    )
    return Frame(observation, trace_frame(_trace_offers(others, names), labels))


def read_part(asked: PodQueries, target: ClusterTarget, frame: Frame) -> PartObservation:
    """Return the pods of one part, with their traces.

    The labels of their nodes are those of the frame, which was asked as of the same time.

    Raises:
        SourceUnavailableError: The response is missing, partial, has a warning or is invalid.
    """
    observations = asked.observations()
    facts = asked.facts(user_label=target.user_label)
    open_questions, history = questions(observations.pods, facts.pods), PodHistory()
    if open_questions:
        history = read_history(asked.details(open_questions), user_label=target.user_label)
    asked.check_counts()
    nodes = {node for pod in observations.pods.values() for node in pod.nodes}
    nodes |= {node for pod in facts.pods.values() for node in pod.nodes}
    labels = _labels_of(nodes, frame=frame)
    return PartObservation(
        pods=compose_pods(observations.pods, facts.pods, history, labels),
        evidence=tuple(asked.asking.evidence),
        traces=_trace_pods(observations.pods, facts.pods),
    )


def trace_frame(offers: Iterable[OfferTrace], labels: NodeLabels) -> bytes:
    """Return what is kept of the nodes of a window."""
    encode = msgspec.msgpack.encode
    return encode(
        FrameTrace(
            offers=msgspec.Raw(encode(list(offers))),
            labels={node: msgspec.Raw(encode(sets)) for node, sets in labels.sets.items()},
            beside=labels.beside,
        )
    )


def _labels_of(nodes: Iterable[str], *, frame: Frame) -> NodeLabels:
    """Return the labels of some nodes of a window."""
    kept = _FRAME_TRACES.decode(frame.traces)
    return NodeLabels(
        {node: _LABEL_SETS.decode(kept.labels[node]) for node in nodes if node in kept.labels},
        kept.beside,
    )


def _trace_offers(others: Iterable[Series], names: Names) -> Iterator[OfferTrace]:
    for one in others:
        if one.metric == known.ALLOCATABLE:
            node, target = (names.label(one.labels, label) for label in ("node", "instance"))
            yield OfferTrace(node, target, one.times[0], one.times[-1])


def _trace_pods(seen: Mapping[str, SeenPod], facts: Mapping[str, PodFacts]) -> bytes:
    return msgspec.msgpack.encode(
        [_trace_pod(uid, pod, facts.get(uid)) for uid, pod in seen.items()]
    )


def _trace_pod(uid: str, pod: SeenPod, facts: PodFacts | None) -> PodTrace:
    created = facts.created if facts else ()
    return PodTrace(
        uid=uid,
        namespace=pod.namespace,
        name=pod.name,
        first=pod.first,
        last=pod.last,
        targets=pod.targets,
        nodes=tuple(pod.nodes),
        created=to_seconds(min(created)) if created else None,
        has_uid=NO_UID not in pod.defects,
        has_facts=facts is not None,
        is_bound=facts is not None and bool(facts.nodes),
        is_scheduled=facts is not None and bool(facts.scheduled),
    )


def settle_parts(target: ClusterTarget, *, frame: Frame, traces: Iterable[bytes]) -> Settled:
    """Return what the pods of all parts show together.

    Raises:
        SourceUnavailableError: What `read_observation` refuses of all pods.
    """
    names, scrape = names_of(target), target.scrape_interval_seconds
    share = _Sharing()
    traced = [share(trace) for part in traces for trace in _POD_TRACES.decode(part)]
    left_out = _known_better(traced)
    traced = [trace for trace in traced if trace.uid not in left_out]
    seen = {trace.uid: trace for trace in sorted(traced, key=lambda one: one.uid)}
    facts = _TracedFacts(seen)
    _refuse_unserved(seen, frame.observation.targets)
    refuse_incomplete(seen, facts)
    offers = _offers(frame, names)
    twins = check_one_cluster(seen, offers, names, scrape_seconds=scrape)
    skew, contradicting = measure_skew(
        seen, facts, frame.observation.targets, scrape_seconds=scrape
    )
    found = (contradicting, twins)
    return Settled(
        clock_skew_seconds=skew,
        defects={
            uid: tuple(some[uid] for some in found if uid in some)
            for uid in {uid for some in found for uid in some}
        },
        left_out=left_out,
    )


def _refuse_unserved(seen: Mapping[str, PodTrace], targets: Iterable[ScrapeTarget]) -> None:
    """Refuse pods of a target that the frame does not know to have any: its answer was cut."""
    idle = {one.name for one in targets if not one.has_series}
    if any(not idle.isdisjoint(pod.targets) for pod in seen.values()):
        raise SourceUnavailableError(
            "A target showed pods, but is not among those that did.", reason="count_differs"
        )


def _known_better(traced: Sequence[PodTrace]) -> frozenset[str]:
    """Return the made uids of pods that another exporter shows with their own."""
    nameless = [trace for trace in traced if not trace.has_uid]
    if not nameless:
        return _NONE
    identified = {(trace.namespace, trace.name) for trace in traced if trace.has_uid}
    if not identified:
        raise SourceUnavailableError("No request carries a uid.", reason="bad_answer")
    return frozenset(one.uid for one in nameless if (one.namespace, one.name) in identified)


_NO_UID: Final = frozenset({NO_UID})
_ANY: Final = frozenset({""})
_NONE: Final[frozenset[str]] = frozenset()


class _Sharing:
    """Lets traces share the values that many pods have: of 100,000 pods they would take 30 MB."""

    def __init__(self) -> None:
        self._times: dict[int, int] = {}
        self._names: dict[tuple[str, ...], tuple[str, ...]] = {}

    def __call__(self, trace: PodTrace) -> PodTrace:
        trace.namespace = intern(trace.namespace)
        trace.first = self._times.setdefault(trace.first, trace.first)
        trace.last = self._times.setdefault(trace.last, trace.last)
        trace.targets = self._names.setdefault(trace.targets, trace.targets)
        trace.nodes = self._names.setdefault(trace.nodes, trace.nodes)
        return trace


class _TracedFacts(Mapping[str, PodFacts]):
    """The facts of traced pods, made when they are asked for: those of all would take 50 MB."""

    def __init__(self, traced: Mapping[str, PodTrace]) -> None:
        self._traced = traced

    def __getitem__(self, uid: str) -> PodFacts:
        trace = self._traced[uid]
        if not trace.has_facts:
            raise KeyError(uid)
        return _facts(trace)

    def __contains__(self, uid: object) -> bool:
        trace = self._traced.get(uid) if isinstance(uid, str) else None
        return trace is not None and trace.has_facts

    def __iter__(self) -> Iterator[str]:
        return (uid for uid in self._traced if uid in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _facts(trace: PodTrace) -> PodFacts:
    created = frozenset(() if trace.created is None else (to_time(trace.created * 1000),))
    return PodFacts(
        nodes=_ANY if trace.is_bound else _NONE,
        created=created,
        scheduled=_ANY if trace.is_scheduled else _NONE,
    )


def _offers(frame: Frame, names: Names) -> Iterator[Series]:
    """Yield the offers of nodes of a window, decoded when they are asked for."""
    kept = _OFFERS_ALONE.decode(frame.traces)
    for trace in _OFFER_TRACES.decode(kept.offers):
        yield _offer(trace, names)


def _offer(trace: OfferTrace, names: Names) -> Series:
    labels = {names.labels["node"][0]: trace.node, names.labels["instance"][0]: trace.target}
    return Series(known.ALLOCATABLE, labels, (trace.first, trace.last), ())
