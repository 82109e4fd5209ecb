"""Rechecks killed at any commit, done by several workers, with evidence in any order."""

from datetime import UTC, datetime

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metering.domain.collection.crashpoints import CRASHPOINTS
from metering.domain.collection.windows import DEFAULT_POLICY
from metering.domain.errors import ClaimLostError
from metering.models import UsageCorrection, UsageRecord, WindowRecheck
from metering.services.corrections.rechecking import (
    RecheckSweep,
    recheck_claimed,
    recheck_due,
    recheck_window,
)
from metering.services.corrections.rechecks import claim_rechecks, make_due_rechecks
from tenants.models import AuditEntry, Project
from tests.metering.services.collection.test_concurrency import at_once
from tests.support.builders import bind, make_cluster, make_organization, make_project
from tests.support.metering.crashing import DEAD, exit_code_of
from tests.support.metering.ledger import Rows, everything
from tests.support.metering.rechecking import (
    FIRST,
    SECOND,
    corrections,
    hours_later,
    learn,
    recheck,
    seal_hour,
    sums,
)
from tests.support.metering.rechecking_until_death import look_again, seal
from tests.support.metering.seen import ACTOR, HOUR, ended_pod, pod
from tests.support.sampling import sampled

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
POINTS = [
    (name, hit)
    for name in CRASHPOINTS
    if name.startswith("recheck.")
    for hit in ((1, 2) if name.startswith(("recheck.claim", "recheck.after_observe")) else (1,))
]
HOUR_SECONDS = 3600


def outcome() -> tuple[Rows, list[object], list[object]]:
    """Return all that metering left behind, with its corrections and the entries about them."""
    facts = AuditEntry.objects.filter(action="metering:window:recheck").values_list(
        "facts__reason", flat=True
    )
    reported = UsageCorrection.objects.order_by("digest").values_list(
        "cause", "state", "unit_seconds", "digest", "evidence"
    )
    rows = everything()
    columns = [f.attname for f in UsageRecord._meta.concrete_fields]  # noqa: SLF001 - Documented model meta.
    kept = [name for name in columns if name not in {"id", "window_id", "fact_id", "correction_id"}]
    rows["UsageRecord"] = sorted(UsageRecord.objects.values_list(*kept), key=repr)
    return rows, list(reported), list(facts)


def expected_rows() -> tuple[Rows, list[object], list[object]]:
    """Return what a run that nobody disturbs leaves behind, and take it back."""
    with transaction.atomic():
        seal()
        look_again()
        assert sums() == {"a": 900, "b": 7200}
        found = outcome()
        transaction.set_rollback(True)
    return found


@pytest.mark.usefixtures("committed_db")
@pytest.mark.parametrize(("point", "hit"), sampled(POINTS, every=4))
def test_a_worker_killed_while_it_looks_again_changes_nothing_in_the_end(
    point: str, hit: int
) -> None:
    expected = expected_rows()
    seal()

    assert exit_code_of(look_again, point=point, hit=hit) == DEAD
    # The lease of the dead runs out, and another worker does the same work.
    WindowRecheck.objects.filter(state="checking").update(lease_until=LONG_AGO)
    look_again()

    assert outcome() == expected


@pytest.mark.usefixtures("committed_db")
def test_workers_at_once_correct_an_hour_once() -> None:
    bind(make_cluster(metered_from=HOUR), "team-nlp", make_project(make_organization()))
    metering = seal_hour(pod("a"))
    learn(metering, pod("a"), *(pod(f"late-{n}") for n in range(5)))
    swept: list[RecheckSweep] = []

    def work() -> None:
        swept.append(recheck_due(worker=metering, at=SECOND))

    at_once(work, work, work)

    assert sum(sweep.made for sweep in swept) == 1
    assert sum(sweep.corrections for sweep in swept) == 1
    assert corrections() == [("late_data", "posted", 5, 18_000)]
    assert sum(sums().values()) == 6 * HOUR_SECONDS


@pytest.mark.django_db
class TestClaims:
    @pytest.fixture(autouse=True)
    def _stage(self, project: Project) -> None:
        del project

    def test_a_worker_that_was_overtaken_writes_nothing(self) -> None:
        metering = seal_hour(pod("a"))
        learn(metering, pod("a"), pod("late"))
        make_due_rechecks(at=FIRST)
        [slow] = claim_rechecks(worker="slow", limit=9, at=FIRST)
        WindowRecheck.objects.update(lease_until=LONG_AGO)
        [fast] = claim_rechecks(worker="fast", limit=9, at=FIRST)
        assert fast.fence == slow.fence + 1

        with pytest.raises(ClaimLostError):
            recheck_window(claimed=slow, source=metering.source, actor=ACTOR, at=FIRST)
        assert recheck_claimed(claimed=slow, worker=metering, at=FIRST) == RecheckSweep()

        assert (corrections(), sums()) == ([], {"a": 3600})
        recheck_window(claimed=fast, source=metering.source, actor=ACTOR, at=FIRST)
        assert sums() == {"a": 3600, "late": 3600}

    def test_what_one_worker_holds_no_other_gets(self) -> None:
        seal_hour(pod("a"))
        make_due_rechecks(at=FIRST)

        assert len(claim_rechecks(worker="one", limit=9, at=FIRST)) == 1
        assert claim_rechecks(worker="two", limit=9, at=FIRST) == []

    def test_a_recheck_whose_workers_never_report_back_fails_for_good(self) -> None:
        seal_hour(pod("a"))
        make_due_rechecks(at=FIRST)
        for _ in range(DEFAULT_POLICY.attempts_max):
            assert len(claim_rechecks(worker="w", limit=9, at=FIRST)) == 1
            WindowRecheck.objects.update(lease_until=LONG_AGO)

        assert claim_rechecks(worker="w", limit=9, at=FIRST) == []

        failed = WindowRecheck.objects.get()
        assert (failed.state, failed.last_error, failed.finished_at) == (
            "failed",
            "No worker that claimed this recheck ever reported back.",
            FIRST,
        )


arrivals = st.lists(
    st.dictionaries(
        st.sampled_from(["a", "b", "c"]),
        st.integers(0, HOUR_SECONDS).map(lambda seconds: seconds or None),
        max_size=3,
    ),
    min_size=1,
    max_size=3,
)


@pytest.mark.django_db
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(first=arrivals, reported=arrivals)
def test_whatever_comes_late_in_whatever_order_the_sum_is_the_most_that_was_reported(
    project: Project, first: list[dict[str, int | None]], reported: list[dict[str, int | None]]
) -> None:
    """What was once reported is never taken back by an answer that shows less or nothing."""
    del project

    def pods(lives: dict[str, int | None]) -> list[object]:
        return [ended_pod(uid, 0, end) for uid, end in sorted(lives.items()) if end]

    with transaction.atomic():
        metering = seal_hour(*pods(first[0]))  # type: ignore[arg-type]
        truth: dict[str, int] = {uid: end for uid, end in first[0].items() if end}
        for number, lives in enumerate(reported):
            learn(metering, *pods(lives))  # type: ignore[arg-type]
            recheck(metering, hours_later(24 + number) if number else hours_later(1))
            known = {uid: end for uid, end in lives.items() if end}
            if number < 2:
                truth = {uid: max(truth.get(uid, 0), known.get(uid, 0)) for uid in {*truth, *known}}

        assert sums() == dict(sorted(truth.items()))
        assert all(seconds >= 0 for seconds in sums().values())
        transaction.set_rollback(True)
