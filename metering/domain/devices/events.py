"""Device events: health changes of a device, from the levels of its metrics.

Events are changes, never levels: the exporter shows the last XID until it restarts, and counters
never fall. A level that may be older than its first observation is no event.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Final

from metering.domain.allocations.timeline import seconds_between
from metering.domain.devices.error_tables import (
    COUNTERS,
    HEALTH_FAIL,
    HEALTH_SECONDS_MIN,
    HEALTH_STATUS,
    HEALTH_WARN,
    SAME_XID_SECONDS,
    THROTTLED_MIN,
    THROTTLED_SECONDS_MIN,
    VIOLATIONS,
    XID_COUNT,
    XID_ERRORS,
    CounterRule,
    EventKind,
    EventSeverity,
    severity_of_xid,
)


@dataclass(frozen=True)
class HealthRun:
    """An unchanged value, from its first sample to its last; never 0, which is healthy."""

    value: Decimal
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True)
class HealthSignal:
    """One health metric of one device or MIG instance, copies merged.

    Attributes:
        uuid: The physical GPU.
        instance_id: MIG instance id; "" for a whole GPU.
        metric: Product name of the metric.
        code: Value of its label, such as the XID or the health watch; "" for none.
        runs: Oldest first; between two of them the metric was 0 or missing.
    """

    uuid: str
    node: str
    instance_id: str
    instance_profile: str
    metric: str
    code: str
    runs: tuple[HealthRun, ...]


_NANOSECONDS: Final = 1_000_000_000
LevelKey = tuple[str, str, str]
"""UUID, MIG instance id and metric."""
Stretch = tuple[datetime, datetime]


@dataclass(frozen=True)
class DeviceEventFact:
    """Something that went wrong on a device.

    Attributes:
        code: The XID, the health watch, or which counter of the kind.
        end_at: When it was over; None while that is not known.
        is_continued: It existed before the window began, and may be recorded already.
        before: The value before; None when not observed.
    """

    uuid: str
    node: str
    instance_id: str
    instance_profile: str
    kind: EventKind
    code: str
    severity: EventSeverity
    metric: str
    begin_at: datetime
    end_at: datetime | None
    before: Decimal | None
    after: Decimal
    is_continued: bool = False


@dataclass(frozen=True)
class DeviceObservations:
    """The observations of one window.

    Attributes:
        start_at: Begin of the window; changes before it belong to the window before.
        end_at: End of the window, excluded.
        step_seconds: Interval between two samples of one level.
        seen: When each device's exporter was observed, by UUID.
        known: The level each metric was last known to have risen to.
    """

    start_at: datetime
    end_at: datetime
    step_seconds: int
    seen: Mapping[str, Sequence[Stretch]]
    known: Mapping[LevelKey, Decimal]

    def has(self, moment: datetime) -> bool:
        """Whether a moment lies in the window."""
        return self.start_at <= moment < self.end_at

    def saw_before(self, uuid: str, moment: datetime) -> bool:
        """Whether the device was observed right before, so that absence means health."""
        before = moment - timedelta(seconds=self.step_seconds)
        return any(begin < moment and before < end for begin, end in self.seen.get(uuid, ()))


def device_events(
    signals: Iterable[HealthSignal], *, observed: DeviceObservations
) -> tuple[DeviceEventFact, ...]:
    """Return what went wrong in a window, by device, kind, code and begin."""
    found = [event for signal in signals for event in _events_of(signal, observed=observed)]
    found.sort(key=lambda e: (e.uuid, e.instance_id, e.kind, e.code, e.begin_at, e.metric))
    return tuple(_once(found))


def _events_of(signal: HealthSignal, *, observed: DeviceObservations) -> Iterator[DeviceEventFact]:
    if signal.metric == XID_ERRORS:
        return _xids(signal, observed=observed)
    if signal.metric == XID_COUNT:
        return _counted_xids(signal, observed=observed)
    if signal.metric == HEALTH_STATUS:
        return _unhealthy(signal, observed=observed)
    if signal.metric in VIOLATIONS:
        return _throttled(signal, observed=observed)
    rule = COUNTERS.get(signal.metric)
    return iter(()) if rule is None else _increases(signal, rule=rule, observed=observed)


def _changes(
    signal: HealthSignal, *, observed: DeviceObservations
) -> Iterator[tuple[HealthRun, Decimal | None, datetime | None]]:
    """Yield the levels that were reached in the window, the level before, and its last sample.

    A first level older than the window is no change. A first level after a gap in observation is a
    change only when it differs from the known level.
    """
    previous: HealthRun | None = None
    for run in signal.runs:
        if previous is not None:
            before: Decimal | None = previous.value
        elif observed.saw_before(signal.uuid, run.first_at):
            before = Decimal(0)
        else:
            before = observed.known.get((signal.uuid, signal.instance_id, signal.metric))
        if observed.has(run.first_at) and run.value != before:
            yield run, before, None if previous is None else previous.last_at
        previous = run


def _xids(signal: HealthSignal, *, observed: DeviceObservations) -> Iterator[DeviceEventFact]:
    for run, before, _ in _changes(signal, observed=observed):
        yield _xid_event(signal, run=run, xid=int(run.value), before=before)


def _counted_xids(
    signal: HealthSignal, *, observed: DeviceObservations
) -> Iterator[DeviceEventFact]:
    """Yield an event for each rise; the count of a trailing window falls by itself."""
    if not signal.code.isascii() or not signal.code.isdigit():
        return
    for run, before, _ in _changes(signal, observed=observed):
        if before is None or run.value > before:
            yield _xid_event(signal, run=run, xid=int(signal.code), before=before)


def _xid_event(
    signal: HealthSignal, *, run: HealthRun, xid: int, before: Decimal | None
) -> DeviceEventFact:
    return _event(
        signal,
        kind=EventKind.XID,
        code=str(xid),
        severity=severity_of_xid(xid),
        span=(run.first_at, None),
        values=(before, run.value),
    )


def _increases(
    signal: HealthSignal, *, rule: CounterRule, observed: DeviceObservations
) -> Iterator[DeviceEventFact]:
    for run, before, last_at in _changes(signal, observed=observed):
        # A counter that fell restarted at 0.
        risen = run.value - before if before is not None and run.value > before else run.value
        seconds = observed.step_seconds
        if last_at is not None:
            seconds = max(1, seconds_between(last_at, run.first_at))
        if risen < rule.per_second_min * seconds or run.value < rule.warns_at:
            continue
        has_failed = rule.fails_at is not None and run.value >= rule.fails_at
        yield _event(
            signal,
            kind=rule.kind,
            code=rule.code,
            severity=EventSeverity.FAIL if has_failed else EventSeverity.WARN,
            span=(run.first_at, None),
            values=(before, run.value),
        )


def _unhealthy(signal: HealthSignal, *, observed: DeviceObservations) -> Iterator[DeviceEventFact]:
    """Yield the stretches of one bad level that lasted long enough, cut to the window."""
    for run in signal.runs:
        lasted = seconds_between(run.first_at, run.last_at) + observed.step_seconds
        if run.value < HEALTH_WARN or lasted < HEALTH_SECONDS_MIN:
            continue
        last = run.last_at + timedelta(seconds=observed.step_seconds)
        yield from _stretch(
            signal,
            kind=EventKind.HEALTH,
            code=signal.code or "ALL",
            severity=EventSeverity.FAIL if run.value >= HEALTH_FAIL else EventSeverity.WARN,
            span=(run.first_at, last),
            after=run.value,
            observed=observed,
        )


def _throttled(signal: HealthSignal, *, observed: DeviceObservations) -> Iterator[DeviceEventFact]:
    """Yield the stretches in which clocks were held down for more than 5 % of the time."""
    begin: datetime | None = None
    end: datetime | None = None
    after = Decimal(0)
    for low, high in [*pairwise(signal.runs), (None, None)]:
        if low is not None and high is not None and _is_throttled(low, high):
            begin, end, after = begin or low.first_at, high.first_at, high.value
            continue
        if begin and end and seconds_between(begin, end) >= THROTTLED_SECONDS_MIN:
            yield from _stretch(
                signal,
                kind=EventKind.THROTTLE,
                code=VIOLATIONS[signal.metric],
                severity=EventSeverity.WARN,
                span=(begin, end),
                after=after,
                observed=observed,
            )
        begin = end = None


def _is_throttled(low: HealthRun, high: HealthRun) -> bool:
    seconds = seconds_between(low.first_at, high.first_at)
    return high.value - low.value > THROTTLED_MIN * seconds * _NANOSECONDS


def _stretch(  # noqa: PLR0913 - An event has this many parts; all are keyword only.
    signal: HealthSignal,
    *,
    kind: EventKind,
    code: str,
    severity: EventSeverity,
    span: tuple[datetime, datetime],
    after: Decimal,
    observed: DeviceObservations,
) -> Iterator[DeviceEventFact]:
    begin, end = max(span[0], observed.start_at), min(span[1], observed.end_at)
    if begin < end:
        event = _event(
            signal,
            kind=kind,
            code=code,
            severity=severity,
            span=(begin, end),
            values=(None, after),
        )
        yield replace(event, is_continued=span[0] < observed.start_at)


def _event(
    signal: HealthSignal,
    *,
    kind: EventKind,
    code: str,
    severity: EventSeverity,
    span: tuple[datetime, datetime | None],
    values: tuple[Decimal | None, Decimal],
) -> DeviceEventFact:
    return DeviceEventFact(
        uuid=signal.uuid,
        node=signal.node,
        instance_id=signal.instance_id,
        instance_profile=signal.instance_profile,
        kind=kind,
        code=code,
        severity=severity,
        metric=signal.metric,
        begin_at=span[0],
        end_at=span[1],
        before=values[0],
        after=values[1],
    )


def _once(events: Sequence[DeviceEventFact]) -> Iterator[DeviceEventFact]:
    """Yield each event except an XID that another metric reported shortly before."""
    last: DeviceEventFact | None = None
    for event in events:
        is_same = (
            last is not None
            and event.kind is EventKind.XID
            and _device_of(event) == _device_of(last)
            and seconds_between(last.begin_at, event.begin_at) < SAME_XID_SECONDS
        )
        if not is_same:
            yield event
            last = event


def _device_of(event: DeviceEventFact) -> tuple[str, str, EventKind, str]:
    return (event.uuid, event.instance_id, event.kind, event.code)
