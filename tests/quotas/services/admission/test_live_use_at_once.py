"""Sweeps on connections of their own: beside admission, behind a lock, and cut off half way."""

from collections.abc import Callable

import psycopg
import pytest
from celery.exceptions import SoftTimeLimitExceeded
from structlog.testing import capture_logs

from quotas.domain.admission.live_use import LiveUseSweep, sweep_of
from quotas.models import Reservation
from quotas.services.admission import live_use
from tenants.models import Cluster, Organization, SweepCrash
from tests.quotas.services.admission.test_concurrency import at_once
from tests.support.builders import audit_entries, bind, make_cluster
from tests.support.cast import Cast, make_cast
from tests.support.quotas.admitting import (
    LATER,
    ask,
    beat,
    counted,
    demand,
    drifted,
    share,
    start,
    state,
    sweep,
)
from tests.support.quotas.builders import make_limit

CLAIM = "claim/gpu.nvidia.com"
CLAIMS = 24
pytestmark = pytest.mark.usefixtures("committed_db")
REFUSES_TWO = """
CREATE FUNCTION refuse_some() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN RAISE 'nobody foresaw this' USING ERRCODE = 'internal_error'; END $$;
CREATE TRIGGER refuse_some BEFORE INSERT ON quotas_reservation FOR EACH ROW
  WHEN (NEW.pod_uid IN ('pod-1', 'pod-2')) EXECUTE FUNCTION refuse_some();
"""


def stage() -> tuple[Cast, Cluster]:
    cast = make_cast()
    cluster = make_cluster("hopper", is_watched=True, admission_mode="enforce")
    bind(cluster, "llm", cast.llm)
    bind(cluster, "virus", cast.virus)
    return cast, cluster


def held_by(url: str, organization: Organization) -> psycopg.Connection[tuple[object, ...]]:
    """Return a connection on which somebody is about an organization's limits."""
    other = psycopg.connect(url)
    other.execute("SELECT pg_advisory_xact_lock_shared(quotas_lock_key(%s))", [organization.pk])
    return other


def test_a_claim_that_is_handed_over_makes_room_for_nobody_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live_use, "KEYS_PER_TURN", 3)
    cast, cluster = stage()
    limit = make_limit(cast.acme, units=CLAIMS)
    for number in range(CLAIMS):
        assert ask(cluster, "llm", f"pod-{number}", demand(resource=CLAIM)).is_allowed
        share(cluster, f"claim-{number}", f"pod-{number}")
        start(cluster, f"claim-{number}", resource=CLAIM)
    used: list[int] = []

    def watch() -> object:
        while not used or counted(limit) != (CLAIMS, 0, 0, 0):
            used.append(sum(counted(limit)))
        return "watched"

    def late(number: int) -> Callable[[], object]:
        return lambda: {ask(cluster, uid=f"late-{number}-{n}").code.value for n in range(10)}

    answers = at_once(sweep, watch, *[late(number) for number in range(4)])
    sweep()

    assert answers[1:] == ["watched", *[{"limit_reached"}] * 4]
    assert min(used) >= CLAIMS
    assert counted(limit) == (CLAIMS, 0, 0, 0)
    assert drifted() == []
    assert not audit_entries().exists()


def test_two_sweeps_at_once_do_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_use, "KEYS_PER_TURN", 2)
    cast, cluster = stage()
    limits = make_limit(cast.acme, units=8), make_limit(cast.umbrella, units=8)
    for number in range(12):
        start(cluster, f"pod-{number}", namespace="virus" if number % 3 else "llm")

    reported = at_once(sweep, sweep)

    assert sum(swept.found for swept in reported if isinstance(swept, LiveUseSweep)) == 12
    assert [counted(limit) for limit in limits] == [(4, 0, 0, 0), (8, 0, 0, 0)]
    assert sum(entry.facts["pods"] for entry in audit_entries()) == 12
    assert drifted() == []


def test_a_turn_that_does_not_get_its_lock_is_left_to_the_next_sweep(
    monkeypatch: pytest.MonkeyPatch, superuser_url: str
) -> None:
    monkeypatch.setattr(live_use, "KEYS_PER_TURN", 1)
    cast, cluster = stage()
    limits = make_limit(cast.acme, units=8), make_limit(cast.umbrella, units=8)
    start(cluster, "pod-1")
    start(cluster, "pod-2", namespace="virus")

    with held_by(superuser_url, cast.acme), capture_logs() as logs:
        left = sweep()
        others = [counted(limit) for limit in limits]
        reported = audit_entries().get().facts["namespaces"]

    assert (left.found, left.turns_left, reported) == (1, 1, ["hopper/virus"])
    assert others == [(0, 0, 0, 0), (1, 0, 0, 0)]
    # Hints of other tests ring beside, and may tell that nobody listens.
    ours = [(log["event"], log["log_level"]) for log in logs if "live_use" in log["event"]]
    assert ours == [("quotas.live_use.batch_skipped", "warning")]
    assert (sweep().found, counted(limits[0])) == (1, (1, 0, 0, 0))


def test_a_claim_whose_turn_was_left_stays_with_its_pod(
    monkeypatch: pytest.MonkeyPatch, superuser_url: str
) -> None:
    monkeypatch.setattr(live_use, "KEYS_PER_TURN", 1)
    cast, cluster = stage()
    limit = make_limit(cast.acme, units=1)
    ask(cluster, "llm", "pod-1", demand(resource=CLAIM))
    share(cluster, "claim-1", "pod-1")
    start(cluster, "claim-1", resource=CLAIM)

    with held_by(superuser_url, cast.acme):
        left = sweep()
        kept = counted(limit)

    assert (left, kept) == (LiveUseSweep(turns_left=2), (0, 1, 0, 0))
    assert sweep() == LiveUseSweep(found=1, released=1)
    assert counted(limit) == (1, 0, 0, 0)


def test_a_turn_that_crashes_every_time_is_counted_and_keeps_no_other_from_its_turn(
    monkeypatch: pytest.MonkeyPatch, superuser_url: str
) -> None:
    monkeypatch.setattr(live_use, "KEYS_PER_TURN", 1)
    cast, cluster = stage()
    limits = make_limit(cast.acme, units=8), make_limit(cast.umbrella, units=8)
    for number, namespace in enumerate(("llm", "llm", "llm", "virus"), start=1):
        start(cluster, f"pod-{number}", namespace=namespace)
    with psycopg.connect(superuser_url, autocommit=True) as other:
        other.execute(REFUSES_TWO)

        with capture_logs() as logs:
            swept, again = sweep(), sweep()
        half = (
            set(Reservation.objects.values_list("pod_uid", flat=True)),
            audit_entries().count(),
        )
        counts = [counted(limit) for limit in limits]
        other.execute("DROP FUNCTION refuse_some CASCADE")
    last = sweep()

    assert (swept.found, swept.turns_crashed, swept.turns_left) == (2, 2, 0)
    assert again == LiveUseSweep(turns_crashed=2)
    assert half == ({"pod-3", "pod-4"}, 2)
    assert counts == [(1, 0, 0, 0), (1, 0, 0, 0)]
    assert [(log["event"], log["log_level"], log["key"]) for log in logs] == [
        ("quotas.live_use.crashed", "error", str(cast.acme.pk))
    ] * 4
    crash = SweepCrash.objects.get()
    assert (crash.event, crash.count) == ("quotas.live_use.crashed", 4)
    assert (crash.last_key, crash.last_error) == (str(cast.acme.pk), "InternalError")
    assert (last.found, last.turns_crashed) == (2, 0)
    assert [entry.facts["pods"] for entry in audit_entries()] == [1] * 4
    assert ([counted(limit) for limit in limits], drifted()) == ([(3, 0, 0, 0), (1, 0, 0, 0)], [])


def test_a_sweep_that_is_cut_off_loses_no_bypass_and_shows_none_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live_use, "KEYS_PER_TURN", 1)
    cast, cluster = stage()
    limit = make_limit(cast.acme, units=8)
    start(cluster, "pod-1")
    start(cluster, "pod-2")
    answers = iter([sweep_of])

    def answer_once(reported: dict[str, object]) -> LiveUseSweep:
        for read in answers:
            return read(reported)
        raise SoftTimeLimitExceeded

    with monkeypatch.context() as patch:
        patch.setattr(live_use, "sweep_of", answer_once)
        with pytest.raises(SoftTimeLimitExceeded):
            sweep()
    half = Reservation.objects.get().pod_uid, counted(limit), audit_entries().count()
    sweep()

    assert half == ("pod-1", (1, 0, 0, 0), 1)
    assert [entry.facts["pods"] for entry in audit_entries()] == [1, 1]
    assert (counted(limit), drifted()) == ((2, 0, 0, 0), [])
    assert not SweepCrash.objects.exists()


def test_sweeps_beside_pods_that_ask_release_what_expired_once() -> None:
    cast, cluster = stage()
    limit = make_limit(cast.acme, units=40)
    for number in range(20):
        ask(cluster, uid=f"lost-{number}")
    beat(cluster)

    def late(number: int) -> Callable[[], object]:
        return lambda: all(
            ask(cluster, uid=f"late-{number}-{n}", at=LATER).is_allowed for n in range(5)
        )

    answers = at_once(sweep, *[late(number) for number in range(4)], sweep)

    assert answers[1:5] == [True] * 4
    assert counted(limit) == (0, 20, 0, 0)
    assert state("lost-0") == ("released", "expired")
    assert drifted() == []
