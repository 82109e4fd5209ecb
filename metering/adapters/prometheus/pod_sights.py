"""Sights of pods that asked for a GPU: their requests, seen at one scrape after another.

kube-state-metrics shows a request for as long as the object exists. Series of one uid are one pod,
however many copies of Prometheus, restarts or shards of the exporter split them; a pod name that
is used again is another pod.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NoReturn

from metering.adapters.prometheus import names as known
from metering.adapters.prometheus.names import Names
from metering.adapters.prometheus.sample_texts import distinct
from metering.adapters.prometheus.samples import Series, read_units
from tenants.domain.errors import SourceUnavailableError

REQUEST_METRICS: Final = (known.REQUESTS, known.INIT_REQUESTS)


@dataclass(slots=True)
class SeenPod:
    """One uid over all series that carry it."""

    namespace: str
    name: str
    first: int
    last: int
    times: list[Sequence[int]] = field(default_factory=list)
    """Sights in Unix milliseconds: of each series oldest first, shared with others."""
    units: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """By metric, container and resource."""

    def first_from(self, moment: int) -> int:
        """Return the first sight that is not before a moment, else the last one."""
        later = (bisect_left(times, moment) for times in self.times)
        found = [times[at] for times, at in zip(self.times, later, strict=True) if at < len(times)]
        return min(found, default=self.last)


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
        pod = pods[uid] = SeenPod(namespace, name, one.times[0], one.times[-1])
    if (pod.namespace, pod.name) != (namespace, name):
        refuse_conflict("name")
    pod.first, pod.last = min(pod.first, one.times[0]), max(pod.last, one.times[-1])
    pod.times.append(one.times)
    key = (one.metric, names.label(one.labels, "container"), one.labels.get("resource", ""))
    for text in distinct(one.values):
        units = read_units(text)
        if pod.units.setdefault(key, units) != units:
            refuse_conflict("request")


def refuse_conflict(what: str) -> NoReturn:
    """Refuse copies that disagree about what cannot change.

    Raises:
        SourceUnavailableError: `conflicting_series`.
    """
    raise SourceUnavailableError(
        f"Series of one pod disagree about its {what}.", reason="conflicting_series"
    )
