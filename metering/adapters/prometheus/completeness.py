"""Completeness of responses: the server's own counts are compared with what arrived.

A proxy or an unavailable store may omit series without a warning. Such a response looks complete
and would be billed low, so its completeness is proved before use. Nor may it hold more than one
cluster.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from itertools import combinations
from typing import Final, NamedTuple, NoReturn, Protocol

from metering.adapters.prometheus.asking import Arrived, Asking
from metering.adapters.prometheus.names import ALLOCATABLE, Names
from metering.adapters.prometheus.pods.facts import PodFacts
from metering.adapters.prometheus.pods.requests import NO_UID
from metering.adapters.prometheus.queries import ANSWER_LABEL, DETAILS, FACTS, OBSERVATIONS, counts
from metering.adapters.prometheus.samples import Range, Series, read_count, read_rows
from tenants.domain.errors import SourceUnavailableError

_TITLES: Final[Mapping[str, str]] = {
    OBSERVATIONS: "requests of pods, offers of nodes and scrapes",
    FACTS: "facts of pods and nodes",
    DETAILS: "details of pods and nodes",
}
HANDOVER_SECONDS_MAX: Final = 900
"""How long an old and a new exporter of one cluster may both be scraped while one replaces the
other and they share the pods between them."""


def check_counts(asking: Asking) -> None:
    """Compare what arrived with the server's own counts, once all of it was read.

    One query, and as many as there are parts of a range that had to be divided. The counts are a
    response too, which may have been cut: each has to be present.

    Raises:
        SourceUnavailableError: `count_differs` when a response does not have all its series, or a
            count is missing, `bad_answer` when it is no number, or no response.
    """
    parts: dict[Range, list[Arrived]] = defaultdict(list)
    for one in asking.arrived:
        parts[one.within].append(one)
    for within, answers in parts.items():
        query = counts({one.name: one.query for one in answers})
        answer = asking.ask(query, within)
        compare_counts(read_counts(read_rows(answer)), answers)
        asking.note(query, within, answer, len(answers))


def compare_counts(held: Mapping[str, int], answers: Sequence[Arrived]) -> None:
    """Compare what arrived with the server's counts, by name.

    Raises:
        SourceUnavailableError: `count_differs`, as for `check_counts`.
    """
    missing = [_TITLES[one.name] for one in answers if one.name not in held]
    if missing or len(held) != len(answers):
        raise SourceUnavailableError(
            f"The counts are not whole: none of {', '.join(missing) or 'what was asked'}.",
            reason="count_differs",
        )
    for one in answers:
        if held[one.name] not in {one.series, one.inside}:
            _refuse_difference(one, held=held[one.name])


def read_counts(rows: Iterable[tuple[Mapping[str, str], str]]) -> dict[str, int]:
    """Return the server's counts by name, from the rows of a response to `counts`.

    Raises:
        SourceUnavailableError: `bad_answer` when one is no number or there twice.
    """
    found: dict[str, int] = {}
    for labels, value in rows:
        name = labels.get(ANSWER_LABEL, "")
        if name in found:
            raise SourceUnavailableError("Series are counted twice.", reason="bad_answer")
        found[name] = read_count(value)
    return found


def _refuse_difference(arrived: Arrived, *, held: int) -> NoReturn:
    raise SourceUnavailableError(
        f"Prometheus holds {held} series of {_TITLES[arrived.name]}, but its answer has"
        f" {arrived.series}.",
        reason="count_differs",
    )


class ShownPod(Protocol):
    """What the checks of all pods together ask of one; attributes as those of `SeenPod`."""

    @property
    def namespace(self) -> str:
        """Return its namespace."""
        ...

    @property
    def name(self) -> str:
        """Return its name."""
        ...

    @property
    def first(self) -> int:
        """Return its first sample, Unix milliseconds."""
        ...

    @property
    def last(self) -> int:
        """Return its last sample, likewise."""
        ...

    @property
    def targets(self) -> tuple[str, ...]:
        """Return the targets that carried it."""
        ...

    @property
    def nodes(self) -> Collection[str]:
        """Return the nodes that its requests named."""
        ...

    @property
    def defects(self) -> AbstractSet[str]:
        """Return what of it cannot be."""
        ...


def refuse_incomplete(seen: Mapping[str, ShownPod], facts: Mapping[str, PodFacts]) -> None:
    """Refuse all pods of a window where most have no facts, or no bound one has a time of bind.

    Raises:
        SourceUnavailableError: `incomplete_answer`.
    """
    missing = sum(uid not in facts and NO_UID not in pod.defects for uid, pod in seen.items())
    known = (facts[uid] for uid in seen if uid in facts)
    are_scheduled = [bool(pod.scheduled) for pod in known if pod.nodes]
    if 2 * missing > len(seen) or (are_scheduled and not any(are_scheduled)):
        raise SourceUnavailableError(
            "kube-state-metrics shows requests of pods, but not all that is to be known of them.",
            reason="incomplete_answer",
        )


def check_one_cluster(
    seen: Mapping[str, ShownPod], offers: Iterable[Series], names: Names, *, scrape_seconds: int
) -> Mapping[str, str]:
    """Refuse what only two clusters behind one selector can show.

    Returns:
        A sentence on each pod, by uid, that shares its name with another one at the same time in
        one cluster: an exporter that is late shows a pod which was replaced.

    Raises:
        SourceUnavailableError: `two_clusters` when pods of one name exist at once and their targets
            are strangers, or two targets that have no pod in common show one node and pods of one
            namespace on it.
    """
    twins = _twins(seen, apart=scrape_seconds * 1000 * 5 // 2)
    _refuse_strangers(seen, twins)
    shared = _node_of_two_clusters(seen, offers, names)
    if shared is not None:
        node, first, second = shared
        _refuse_two(f"node {node} is shown by {first} and {second}, and never with the same pods")
    return {
        uid: f"Pod {other} of the same name is shown at the same time."
        for twin in twins
        for uid, other in ((twin.earlier, twin.later), (twin.later, twin.earlier))
    }


class _Twins(NamedTuple):
    """Uids of two pods of one name, and for how many milliseconds both were shown."""

    earlier: str
    later: str
    overlap: int


def _twins(seen: Mapping[str, ShownPod], *, apart: int) -> list[_Twins]:
    """Return the pods that were there long before an earlier one of their name was gone."""
    if len({(pod.namespace, pod.name) for pod in seen.values()}) == len(seen):
        return []
    lasts: dict[tuple[str, str], str] = {}
    twins: list[_Twins] = []
    for uid in sorted(seen, key=lambda one: seen[one].first):
        pod = seen[uid]
        if NO_UID in pod.defects:
            continue
        named = (pod.namespace, pod.name)
        earlier = lasts.get(named)
        overlap = min(seen[earlier].last, pod.last) - pod.first if earlier is not None else 0
        if earlier is not None and overlap > apart:
            twins.append(_Twins(earlier, uid, overlap))
        if earlier is None or pod.last > seen[earlier].last:
            lasts[named] = uid
    return twins


def _refuse_strangers(seen: Mapping[str, ShownPod], twins: Sequence[_Twins]) -> None:
    """Refuse pods of one name whose targets show nothing that only one cluster has.

    Targets that share a pod are of one cluster. Shards never do, but show pods on one node; then a
    name, or several for the time of a handover, is one shard that is late.
    """
    if not twins:
        return
    longer = [twin for twin in twins if twin.overlap > HANDOVER_SECONDS_MAX * 1000]
    pods = _pods_by_target(seen)
    relations: dict[tuple[tuple[str, ...], tuple[str, ...]], _Relation] = {}
    for twin in twins:
        between = seen[twin.earlier].targets, seen[twin.later].targets
        if between not in relations:
            relations[between] = _relation(*between, pods)
        is_late = len(longer) <= 1 or twin not in longer
        if relations[between] is _Relation.NONE or (
            relations[between] is _Relation.NODE and not is_late
        ):
            later = seen[twin.later]
            _refuse_two(f"pod {later.namespace}/{later.name} exists twice at once, with two uids")


class _Relation(Enum):
    """What two groups of targets have in common."""

    NONE = "none"
    NODE = "node"
    """A node that both show pods on, or the name of a target, which two clusters may share."""
    POD = "pod"


def _relation(
    first: Sequence[str], second: Sequence[str], pods: Mapping[str, Mapping[str, ShownPod]]
) -> _Relation:
    if set(first) & set(second):
        return _Relation.NODE
    firsts, seconds = (_merged(targets, pods) for targets in (first, second))
    if firsts.keys() & seconds.keys():
        return _Relation.POD
    nodes = [{node for pod in some.values() for node in pod.nodes} for some in (firsts, seconds)]
    return _Relation.NODE if nodes[0] & nodes[1] else _Relation.NONE


def _merged(
    targets: Sequence[str], pods: Mapping[str, Mapping[str, ShownPod]]
) -> Mapping[str, ShownPod]:
    return {uid: pod for target in targets for uid, pod in pods[target].items()}


def _node_of_two_clusters(
    seen: Mapping[str, ShownPod], offers: Iterable[Series], names: Names
) -> tuple[str, str, str] | None:
    """Return a node and two targets that cannot be of one cluster.

    Copies of an exporter show the same pods, of two shards one shows the node, and exporters of
    some namespaces each show pods of their own ones.
    """
    spans: dict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
    for one in offers:
        if one.metric == ALLOCATABLE:
            found = spans[names.label(one.labels, "node")]
            target = names.label(one.labels, "instance")
            begin, end = found.get(target, (one.times[0], one.times[-1]))
            found[target] = min(begin, one.times[0]), max(end, one.times[-1])
    shown_twice = {node: targets for node, targets in spans.items() if len(targets) > 1}
    pods = _pods_by_target(seen) if shown_twice else {}
    for node, targets in shown_twice.items():
        for first, second in combinations(sorted(targets), 2):
            last_begin = max(targets[first][0], targets[second][0])
            together = min(targets[first][1], targets[second][1]) - last_begin
            if together > HANDOVER_SECONDS_MAX * 1000 and _are_strangers(
                pods[first], pods[second], node=node
            ):
                return node, first, second
    return None


def _pods_by_target(seen: Mapping[str, ShownPod]) -> dict[str, dict[str, ShownPod]]:
    pods: dict[str, dict[str, ShownPod]] = defaultdict(dict)
    for uid, pod in seen.items():
        for target in pod.targets:
            pods[target][uid] = pod
    return pods


def _are_strangers(
    first: Mapping[str, ShownPod], second: Mapping[str, ShownPod], *, node: str
) -> bool:
    """Whether two targets show pods of one namespace on a node, and none of both."""
    namespaces = [
        {pod.namespace for pod in pods.values() if node in pod.nodes} for pods in (first, second)
    ]
    return bool(namespaces[0] & namespaces[1]) and not first.keys() & second.keys()


def _refuse_two(what: str) -> NoReturn:
    raise SourceUnavailableError(
        f"Two clusters seem to be behind one selector: {what}.", reason="two_clusters"
    )
