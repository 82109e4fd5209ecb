"""A window never waits without an open exception that says why, whatever happened to it before."""

from collections.abc import Callable
from datetime import timedelta
from random import Random

import pytest

from metering.domain.collection.windows import GapPolicy, MeteringPolicy
from metering.domain.errors import (
    ExceptionResolvedError,
    WindowDecisionRequiredError,
    WindowEndUnobservedError,
    WindowSealedError,
    WindowStateError,
)
from metering.models import ExceptionState, MeteringException, MeteringWindow
from metering.services.collection.hour_decisions import decide_window, retry_window
from metering.services.collection.sweeping import meter_due, report_waiting_windows
from metering.services.corrections.exceptions import resolve_exception
from tenants.models import Cluster
from tests.support.builders import bind, make_cluster, make_organization, make_project
from tests.support.metering.seen import ACTOR, HOUR, moment, observation, pod, ticks, worker
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
OLD = HOUR + timedelta(days=3)
STEPS = 8


@shared_rows
def cluster() -> Cluster:
    found = make_cluster(metered_from=HOUR, closed_at=moment(3600))
    bind(found, "team-nlp", make_project(make_organization()))
    return found


def window() -> MeteringWindow:
    return MeteringWindow.objects.get()


def meter(begin: int = -120, end: int = 4500, *, down: str = "") -> None:
    """Sweep as a worker does whose source was scraped in a part of the hour, or is away."""
    metering = worker(observation(pod("a"), ticks=ticks(begin, end)))
    metering.source.down = down  # type: ignore[attr-defined]
    meter_due(worker=metering, at=OLD)


def decide(decision: GapPolicy) -> None:
    try:
        decide_window(window_id=window().pk, decision=decision, note="Known.", actor=ACTOR, at=OLD)
    except (WindowSealedError, WindowStateError, WindowEndUnobservedError):
        return


def retry() -> None:
    try:
        retry_window(window_id=window().pk, actor=ACTOR, at=OLD)
    except (WindowSealedError, WindowStateError):
        return


def resolve() -> None:
    """Resolve every exception as a person may."""
    for found in MeteringException.objects.filter(state=ExceptionState.OPEN):
        try:
            resolve_exception(exception_id=found.pk, note="Seen.", actor=ACTOR, at=OLD)
        except (WindowDecisionRequiredError, ExceptionResolvedError):
            continue


def crash() -> None:
    """Let every worker die that leases the window, until it is quarantined."""
    MeteringWindow.objects.filter(state="open").update(
        state="collecting", lease_until=HOUR, attempt=MeteringPolicy().attempts_max
    )
    meter()


HAPPENINGS: dict[str, Callable[[], None]] = {
    "half": lambda: meter(1800),
    "blind at its end": lambda: meter(end=3000),
    "away": lambda: meter(down="timeout"),
    "crash": crash,
    "accept": lambda: decide(GapPolicy.ACCEPT),
    "last known": lambda: decide(GapPolicy.LAST_KNOWN),
    "hold": lambda: decide(GapPolicy.HOLD),
    "retry": retry,
    "resolve": resolve,
}


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.usefixtures("cluster")
def test_whatever_happened_nothing_waits_without_an_exception(seed: int) -> None:
    chosen = Random(seed).choices(sorted(HAPPENINGS), k=STEPS)  # noqa: S311 - No secret.
    meter(1800)

    for number, name in enumerate(chosen, start=1):
        HAPPENINGS[name]()
        MeteringWindow.objects.filter(state="open").update(not_before=OLD)

        assert report_waiting_windows(at=OLD) == 0, chosen[:number]


@pytest.mark.usefixtures("cluster")
def test_a_decision_that_could_not_be_met_is_back_among_the_exceptions() -> None:
    meter(end=3000)
    decide(GapPolicy.ACCEPT)
    assert not MeteringException.objects.filter(state=ExceptionState.OPEN).exists()

    meter(end=3000)

    assert window().state == "gap"
    [found] = MeteringException.objects.all()
    assert (found.kind, found.state, found.resolution) == ("low_coverage", "open", "")


@pytest.mark.usefixtures("cluster")
def test_what_a_window_waits_for_is_resolved_by_a_decision_alone() -> None:
    meter(1800)
    [found] = MeteringException.objects.all()

    with pytest.raises(WindowDecisionRequiredError):
        resolve_exception(exception_id=found.pk, note="Seen.", actor=ACTOR, at=OLD)

    found.refresh_from_db()
    assert (found.state, window().state) == ("open", "gap")


@pytest.mark.usefixtures("cluster")
def test_windows_that_wait_without_an_exception_get_one_at_the_next_sweep() -> None:
    meter(1800)
    MeteringException.objects.filter(state="open").update(state="resolved", resolution="Seen.")
    assert window().state == "gap"

    meter(1800)

    [found] = MeteringException.objects.all()
    assert (found.kind, found.state, found.window_id) == ("low_coverage", "open", window().pk)
    assert found.summary == window().last_error
    assert found.remedy


@pytest.mark.usefixtures("cluster")
def test_a_failed_window_that_no_worker_tries_again_is_reported() -> None:
    meter(down="timeout")
    MeteringException.objects.filter(state="open").update(state="resolved", resolution="Seen.")
    MeteringWindow.objects.update(not_before=OLD)

    assert report_waiting_windows(at=OLD) == 0
    assert report_waiting_windows(at=OLD + timedelta(hours=1)) == 1
    assert report_waiting_windows(at=OLD + timedelta(hours=1)) == 0

    assert MeteringException.objects.get().kind == "source_unavailable"
