"""Explaining: from a usage record back to its evidence, and why a pod was not charged.

An explanation is a list of steps, each a heading, a sentence and the facts behind it, in the order
of a person's questions. It is put together from what the ledgers hold and changes nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from metering.domain.catalogue.claimed_devices import size_of_held
from metering.domain.catalogue.sizing import Catalogue, Sized
from metering.domain.collection.windows import WindowState

Fact = str | int | None


@dataclass(frozen=True)
class Step:
    """One step of an explanation."""

    heading: str
    sentence: str
    facts: Mapping[str, Fact] = field(default_factory=dict)


@dataclass(frozen=True)
class QueryFact:
    """One query a window was metered from, as the window keeps it."""

    query: str
    at: str
    sha256: str
    samples: int


@dataclass(frozen=True)
class WindowFact:
    """What an explanation shows of a window."""

    id: int
    cluster: str
    start_at: datetime
    state: WindowState
    sources: tuple[str, ...]
    coverage: str
    watch_coverage: str
    as_of: datetime | None
    sealed_at: datetime | None
    record_digest: str
    evidence: tuple[QueryFact, ...]
    reconciliation: Mapping[str, object] = field(default_factory=dict)
    unobserved_seconds: int | None = None
    hidden_unit_seconds_max: Mapping[str, int] | None = None


@dataclass(frozen=True)
class HeldFact:
    """What an explanation shows of an allocation."""

    resource: str
    units: int
    size: str
    price_group: str
    sharing_mode: str
    share: str
    source: str
    node: str
    node_labels: Mapping[str, str]
    catalogue_version: int | None
    begin_at: datetime
    end_at: datetime | None
    end_kind: str
    end_slack_seconds: int


class ChargeVerdict(StrEnum):
    """Why a pod was or was not charged in an hour; the first that applies."""

    CHARGED = "charged"
    NOT_SEEN = "not_seen"
    NEVER_BOUND = "never_bound"
    NEVER_HELD = "never_held"
    NOT_METERED = "not_metered"
    NOT_SEALED = "not_sealed"
    WAIVED = "waived"
    HELD_BACK = "held_back"
    SETTLED = "settled"
    OUTSIDE = "outside"
    NOT_RECORDED = "not_recorded"


VERDICT_SENTENCES: Final[Mapping[ChargeVerdict, str]] = {
    ChargeVerdict.CHARGED: "It was metered, and is charged once its hour is sealed and priced.",
    ChargeVerdict.NOT_SEEN: (
        "Neither the cluster's API nor Prometheus showed a pod of this name or uid that asked for "
        "a GPU in the hours asked about. Check the spelling, the cluster and the hours."
    ),
    ChargeVerdict.NEVER_BOUND: "It waited and was never bound to a node, so it held nothing.",
    ChargeVerdict.NEVER_HELD: (
        "It was bound, but no container of it ever ran and the kubelet refused it, so it held "
        "nothing."
    ),
    ChargeVerdict.NOT_METERED: "The cluster is not metered in this hour: it has no window.",
    ChargeVerdict.NOT_SEALED: "The hour is not sealed yet: it is metered or needs a decision.",
    ChargeVerdict.WAIVED: "The hour was waived by a person: nothing in it is charged.",
    ChargeVerdict.HELD_BACK: "It was seen, but what it used is held back by an open exception.",
    ChargeVerdict.SETTLED: (
        "It was seen, and a person settled the exception that held it back; the reason says why it "
        "is not charged."
    ),
    ChargeVerdict.OUTSIDE: "It held its devices before or after this hour, not in it.",
    ChargeVerdict.NOT_RECORDED: (
        "It held devices in this hour, but the sealed hour has no record of it: ask for the hour "
        "to be checked again."
    ),
}


@dataclass(frozen=True)
class PodHour:
    """What is known of one pod and one hour; see `verdict_of`.

    Attributes:
        is_known: Whether any source showed the pod.
        is_bound: Whether it was ever bound to a node.
        has_allocation: Whether the ledger has what it held.
        overlaps: Whether what it held overlaps the hour.
        window_state: None without a window.
        is_waived: Whether the window was sealed without any source.
        records: Usage records of it in the hour.
        open_exceptions: Open causes that hold some of its use back.
        is_settled: Whether a person resolved such a cause.
    """

    is_known: bool
    is_bound: bool
    has_allocation: bool
    overlaps: bool
    window_state: WindowState | None
    is_waived: bool
    records: int
    open_exceptions: int
    is_settled: bool = False


def verdict_of(hour: PodHour) -> ChargeVerdict:
    """Return why a pod was or was not charged in an hour."""
    if hour.records:
        return ChargeVerdict.CHARGED
    if hour.open_exceptions:
        return ChargeVerdict.HELD_BACK
    unrecorded = ChargeVerdict.SETTLED if hour.is_settled else ChargeVerdict.NOT_RECORDED
    return _absent(hour) or _unmetered(hour) or unrecorded


def _absent(hour: PodHour) -> ChargeVerdict | None:
    """Return why the pod itself gives nothing to charge, if so."""
    if not hour.is_known:
        return ChargeVerdict.NOT_SEEN
    if not hour.is_bound:
        return ChargeVerdict.NEVER_BOUND
    if not hour.has_allocation:
        return ChargeVerdict.NEVER_HELD
    return None if hour.overlaps else ChargeVerdict.OUTSIDE


def _unmetered(hour: PodHour) -> ChargeVerdict | None:
    """Return why the hour gives nothing to charge, if so."""
    if hour.window_state is None:
        return ChargeVerdict.NOT_METERED
    if hour.window_state is not WindowState.SEALED:
        return ChargeVerdict.NOT_SEALED
    return ChargeVerdict.WAIVED if hour.is_waived else None


def deciding_rule(
    catalogue: Catalogue, *, resource: str, labels: Mapping[str, str]
) -> tuple[int, Sized] | None:
    """Return which rule of a catalogue sizes a resource, counted from 1, and its result.

    None when no rule does. Rules are first-match, so the shortest beginning of the table that
    gives a size ends with the rule that decides.
    """
    for count in range(1, len(catalogue.rules) + 1):
        beginning = Catalogue(version=catalogue.version, rules=catalogue.rules[:count])
        found = size_of_held(beginning, resource=resource, labels=labels)
        if isinstance(found, Sized):
            return count, found
    return None


def window_steps(window: WindowFact) -> tuple[Step, ...]:
    """Return the steps about the hour and the evidence it was metered from."""
    hour = Step(
        "The hour",
        f"{window.cluster}, {_time(window.start_at)}: {window.state.value}, "
        f"metered from {' and '.join(window.sources) or 'nothing'}.",
        {
            "window": window.id,
            "coverage": window.coverage,
            "watch_coverage": window.watch_coverage,
            **_unobserved(window),
            "as_of": _time(window.as_of),
            "sealed_at": _time(window.sealed_at),
            "record_digest": window.record_digest,
            **{f"reconciliation.{key}": _text(value) for key, value in _reconciliation_of(window)},
        },
    )
    return (hour, *(_evidence(item) for item in window.evidence))


def _unobserved(window: WindowFact) -> Mapping[str, Fact]:
    """Return how long nothing was observed, and what can have been used then at most."""
    if window.unobserved_seconds is None:
        return {}
    hidden = window.hidden_unit_seconds_max
    bounds: dict[str, Fact] = {"hidden_unit_seconds_max": "not known"}
    if hidden is not None:
        bounds = {f"hidden_unit_seconds_max.{size}": most for size, most in sorted(hidden.items())}
    return {"unobserved_seconds": window.unobserved_seconds, **bounds}


def held_step(held: HeldFact, *, catalogue: Catalogue | None) -> Step:
    """Return the step about what the pod held, and which rule sized it."""
    return Step(
        "What it held",
        f"{held.units} x {held.resource} on {held.node or 'an unknown node'}, from "
        f"{_time(held.begin_at)} to {_time(held.end_at) or 'now'} "
        f"({held.end_kind.replace('_', ' ')}), seen first by {held.source}.",
        {
            "size": held.size,
            "price_group": held.price_group,
            "sharing_mode": held.sharing_mode,
            "share_of_a_device": held.share,
            "end_slack_seconds": held.end_slack_seconds,
            "catalogue_version": held.catalogue_version,
            **_rule_facts(held, catalogue=catalogue),
            **{f"node_label.{key}": text for key, text in sorted(held.node_labels.items())},
        },
    )


def _rule_facts(held: HeldFact, *, catalogue: Catalogue | None) -> Mapping[str, Fact]:
    if catalogue is None:
        return {}
    found = deciding_rule(catalogue, resource=held.resource, labels=held.node_labels)
    if found is None:
        return {"catalogue_rule": "none"}
    rule = catalogue.rules[found[0] - 1]
    return {"catalogue_rule": found[0], "catalogue_rule_matches": ", ".join(rule.resources)}


def _evidence(item: QueryFact) -> Step:
    return Step(
        "Evidence",
        f"{item.samples} samples, asked as of {item.at}.",
        {"query": item.query, "at": item.at, "sha256": item.sha256, "samples": item.samples},
    )


def _reconciliation_of(window: WindowFact) -> Sequence[tuple[str, object]]:
    return sorted(window.reconciliation.items())


def _text(value: object) -> Fact:
    return value if isinstance(value, str | int) else str(value)


def _time(at: datetime | None) -> str:
    return "" if at is None else at.isoformat().replace("+00:00", "Z")
