"""Whatever order, doubling or loss a stream suffers, a list afterwards settles the ledger."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metering.models import PodAllocation
from metering.protocols.watch import PodState, WatchEvent
from tests.support.metering.allocations.states import (
    Watching,
    deleted,
    event,
    reported_pod,
    second_of,
)

FINAL = 1000
UIDS = ("a", "b", "c", "d")


@dataclass(frozen=True)
class Life:
    """One pod's truth, in seconds; an end beyond `FINAL` is none yet."""

    uid: str
    bound: int
    finished: int
    is_refused: bool
    is_kept: bool

    @property
    def is_over(self) -> bool:
        return self.finished < FINAL

    @property
    def end(self) -> int | None:
        """Return the exact end."""
        if self.is_refused:
            return self.bound
        return self.finished if self.is_over else None

    def last_state(self) -> PodState:
        """Return how the object looks at last."""
        if self.is_refused:
            reason = "UnexpectedAdmissionError"
            return reported_pod(
                self.uid, bound=self.bound, started=None, phase="Failed", reason=reason
            )
        finished = self.finished if self.is_over else None
        return reported_pod(self.uid, bound=self.bound, finished=finished)

    def stream(self) -> Iterator[WatchEvent]:
        """Yield what the API shows of it, in order."""
        waiting = reported_pod(self.uid, bound=None, phase="Pending", created_at=self._created)
        yield event(waiting, self.bound - 5)
        yield event(
            reported_pod(self.uid, bound=self.bound, started=None, phase="Pending"), self.bound
        )
        if self.is_refused or self.is_over:
            if not self.is_refused:
                yield event(reported_pod(self.uid, bound=self.bound), self.bound + 20)
            yield event(self.last_state(), self.finished)
            if not self.is_kept:
                yield deleted(self.last_state(), self.finished + 1)

    @property
    def _created(self) -> object:
        return reported_pod(self.uid, bound=self.bound).created_at

    @property
    def is_listed(self) -> bool:
        """Return whether the last list shows it."""
        return self.is_kept or not (self.is_refused or self.is_over)


@st.composite
def lives(draw: st.DrawFn) -> list[Life]:
    return [
        Life(
            uid,
            bound=bound,
            finished=bound + draw(st.integers(25, 1500)),
            is_refused=draw(st.booleans()) and draw(st.booleans()),
            is_kept=draw(st.booleans()),
        )
        for uid in UIDS
        for bound in [draw(st.integers(10, 400))]
    ]


@st.composite
def damaged(draw: st.DrawFn, events: list[WatchEvent]) -> list[WatchEvent]:
    """Return a stream with doubled, displaced and lost events."""
    stream = list(events)
    for _ in range(draw(st.integers(0, 4))):
        stream.insert(draw(st.integers(0, len(stream))), draw(st.sampled_from(events)))
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(stream) - 2))
        stream[place], stream[place + 1] = stream[place + 1], stream[place]
    first = draw(st.integers(0, len(stream)))
    lost = draw(st.integers(0, 6))
    return stream[:first] + stream[first + lost :]


@st.composite
def stories(draw: st.DrawFn) -> tuple[list[Life], list[list[WatchEvent]]]:
    reported = draw(lives())
    events = sorted(
        (item for life in reported for item in life.stream()), key=lambda item: item.received_at
    )
    stream = draw(damaged(events))
    size = draw(st.integers(1, 7))
    return reported, [stream[i : i + size] for i in range(0, len(stream), size)]


@contextmanager
def taken_back() -> Iterator[None]:
    """Let each example begin with an empty ledger."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def is_known(life: Life, batches: list[list[WatchEvent]]) -> bool:
    """Whether the list or an event reported the pod's end, or that it has none."""
    last = life.last_state()
    reported = [item.state for batch in batches for item in batch]
    return life.is_listed or last in reported


@given(stories())
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_what_the_list_or_an_event_reported_stands_as_if_nothing_had_happened(
    watching: Watching, story: tuple[list[Life], list[list[WatchEvent]]]
) -> None:
    reported, batches = story
    with taken_back():
        for batch in batches:
            watching.tell(*batch)
            watching.beat(second_of(max(item.received_at for item in batch)) or 0)
        watching.list(FINAL + 1600, *(life.last_state() for life in reported if life.is_listed))

        rows = {row.pod_uid: row for row in PodAllocation.objects.all()}
        for life in reported:
            row = rows.get(life.uid)
            if is_known(life, batches):
                assert row is not None
                kind = "open" if life.end is None else "exact"
                assert (second_of(row.begin_at), second_of(row.end_at), row.end_kind) == (
                    life.bound,
                    life.end,
                    kind,
                )
            elif row is not None:
                assert second_of(row.begin_at) == life.bound
                assert row.end_kind == "vanished_in_gap"
        assert set(rows) <= set(UIDS)


@pytest.mark.parametrize("is_kept", [True, False])
def test_the_undamaged_stream_is_exact(
    watching: Watching,
    is_kept: bool,  # noqa: FBT001 - A column of the table.
) -> None:
    life = Life("a", bound=10, finished=60, is_refused=False, is_kept=is_kept)
    watching.tell(*life.stream())

    row = PodAllocation.objects.get()
    assert (second_of(row.begin_at), second_of(row.end_at), row.end_kind) == (10, 60, "exact")
