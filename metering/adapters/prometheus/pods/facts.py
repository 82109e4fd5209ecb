"""Facts of pods that do not change while they live, over all series of a uid."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime

from metering.adapters.prometheus import names as known
from metering.adapters.prometheus.names import Names
from metering.adapters.prometheus.nodes import owner_of
from metering.adapters.prometheus.samples import Fact, Range, Series, read_timestamp


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

    @property
    def is_plain(self) -> bool:
        """Whether it was bound, has not ended, and no two series differ about it."""
        return (
            not self.is_terminal
            and len(self.scheduled) == 1
            and isinstance(next(iter(self.scheduled)), datetime)
            and len(self.nodes) <= 1
            and len(self.owners) <= 1
            and len(self.priorities) <= 1
        )


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
        known.POD_PHASE: any(pod.is_terminal and not times_of(pod.completed) for pod in pods),
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


def times_of(values: AbstractSet[datetime | str]) -> AbstractSet[datetime]:
    """Return the values that are times."""
    return {at for at in values if isinstance(at, datetime)}
