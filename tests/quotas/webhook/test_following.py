"""Threads that follow unseen pods: for which clusters they wake, and what trouble changes."""

from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from django.db import OperationalError, connections
from psycopg.errors import LockNotAvailable
from structlog.testing import capture_logs

from quotas.adapters.pod_proofs import PodProofs
from quotas.protocols import EnforcementEndpoint
from quotas.selectors.admission.unseen import clusters_to_look_at
from quotas.services.admission.unseen import hold_release_lease
from quotas.webhook import following
from quotas.webhook.following import (
    Follower,
    follow,
    looks_at,
    match_followers,
    wake_followers,
)
from quotas.webhook.unseen import ACTOR, own_name
from tenants.domain.errors import SourceUnavailableError
from tenants.models import Cluster
from tests.support.builders import AT, bind, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.admitting import ask, beat, see, sweep
from tests.support.shared_rows import shared_rows

HOPPER, AMPERE = (EnforcementEndpoint(slug, "", "") for slug in ("hopper", "ampere"))


@shared_rows
def clusters(cast: Cast) -> list[Cluster]:
    """Return two clusters that count the same project."""
    made = [
        make_cluster(slug, is_watched=True, admission_mode="enforce")
        for slug in ("hopper", "ampere")
    ]
    for cluster in made:
        bind(cluster, "llm", cast.llm)
    return made


def test_only_clusters_with_unseen_pods_that_nobody_else_follows_are_woken(
    clusters: list[Cluster],
) -> None:
    hopper, ampere = clusters
    followers = {HOPPER: Follower(hopper.pk), AMPERE: Follower(ampere.pk)}

    def woken() -> list[str]:
        wake_followers(followers, is_due=False)
        found = [one.slug for one, follower in followers.items() if follower.wake.is_set()]
        for follower in followers.values():
            follower.wake.clear()
        return found

    assert woken() == []
    ask(hopper, uid="a")
    ask(ampere, uid="b")
    assert woken() == ["hopper", "ampere"]
    for holder, cluster in (("other", hopper), (own_name(), ampere)):
        assert hold_release_lease(
            cluster_id=cluster.pk, holder=holder, lease_seconds=600, actor=ACTOR
        )
    assert woken() == ["ampere"]
    assert clusters_to_look_at("other") == {hopper.pk}

    see(ampere, "b")
    beat(ampere)
    sweep()

    assert woken() == []
    wake_followers(followers, is_due=True)
    assert all(follower.wake.is_set() for follower in followers.values())


class WithoutWebhooks(PodProofs):
    """A cluster whose webhooks may not be listed, and that has no pods."""

    def find_pod_uid(self, *_: object) -> str:
        return ""

    def read_webhook_seconds(self, *_: object) -> int:
        raise SourceUnavailableError("No.", reason="forbidden")

    def read_selected(self, *_: object) -> frozenset[str] | None:
        raise SourceUnavailableError("No.", reason="forbidden")


def test_a_selector_that_cannot_be_read_keeps_no_units(
    clusters: list[Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "PodProofs", WithoutWebhooks)
    look = looks_at(clusters[0].pk, HOPPER)
    ask(clusters[0])

    assert look(AT + timedelta(minutes=1)) == 1


def test_followers_begin_and_end_with_their_clusters(clusters: list[Cluster]) -> None:
    hopper, ampere = clusters
    followers: dict[EnforcementEndpoint, Follower] = {}
    started: list[str] = []

    def start(endpoint: EnforcementEndpoint, _: Follower) -> None:
        started.append(endpoint.slug)

    match_followers(followers, {hopper.pk: HOPPER}, start=start)
    first = followers[HOPPER]
    match_followers(followers, {hopper.pk: HOPPER, ampere.pk: AMPERE}, start=start)
    assert followers[HOPPER] is first
    match_followers(followers, {ampere.pk: AMPERE}, start=start)

    assert started == ["hopper", "ampere"]
    assert (list(followers), first.stop.is_set(), first.wake.is_set()) == ([AMPERE], True, True)


def test_a_thread_that_has_nothing_to_do_keeps_no_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(following, "IDLE_SECONDS", 0)
    follower = Follower(uuid4())
    closed: list[bool] = []

    def close_all() -> None:
        closed.append(follower.stop.is_set())
        follower.end()

    monkeypatch.setattr(connections, "close_all", close_all)

    follow(lambda _: 0, "hopper", follower)

    assert closed == [False, True]


def test_a_lock_that_is_held_is_no_reason_for_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(following, "PAUSE_SECONDS", 3_600)
    follower = Follower(uuid4())
    looks: list[datetime] = []

    def look(at: datetime) -> int:
        looks.append(at)
        follower.wake.set()
        if len(looks) > 1:
            follower.end()
            return 0
        error = OperationalError("canceling statement due to lock timeout")
        raise error from LockNotAvailable()

    follow(look, "hopper", follower)

    assert len(looks) == 2


def test_a_trouble_that_lasts_is_logged_once_and_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(following, "PAUSE_SECONDS", 0)
    follower = Follower(uuid4())
    forbidden = SourceUnavailableError("No.", reason="forbidden")
    troubles = [forbidden, forbidden, None, OperationalError("Away."), None]

    def look(at: datetime) -> int:
        assert at.tzinfo is not None
        trouble = troubles.pop(0)
        follower.wake.set()
        if not troubles:
            follower.end()
        if trouble is not None:
            raise trouble
        return 0

    with capture_logs() as logs:
        follow(look, "hopper", follower)

    assert [(line["event"], line["cluster"], line["reason"]) for line in logs] == [
        ("admission.unseen.unread", "hopper", "forbidden"),
        ("admission.unseen.unread", "hopper", "OperationalError"),
    ]
