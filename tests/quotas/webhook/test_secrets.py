"""The check of secrets: what was read last holds while the database is away."""

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait

import pytest
from django.db import OperationalError

from quotas.domain.admission.secrets import SECRET_PATH, digest_of, path_with_secret
from quotas.models import Reservation
from quotas.webhook.answers import FACTS
from quotas.webhook.secrets import KEPT_NANOSECONDS, KnownSecrets
from tenants.models import Cluster, Project
from tests.quotas.webhook.conftest import Webhooks
from tests.support.builders import bind, make_cluster
from tests.support.quotas.reviews import pod

A, B = "a" * 43, "b" * 43


class Ledger:
    """Secrets in force, which may be away, and a clock."""

    def __init__(self) -> None:
        self.digests: Mapping[str, tuple[str, ...]] = {"hopper": (digest_of(A),)}
        self.is_away = False
        self.now = 0

    def read(self) -> Mapping[str, tuple[str, ...]]:
        if self.is_away:
            raise OperationalError("Away.")
        return self.digests


def test_a_secret_is_of_one_cluster() -> None:
    ledger = Ledger()
    known = KnownSecrets(ledger.read, lambda: ledger.now)
    assert (known.is_fresh, known.may_ask("hopper", A)) == (False, False)

    known.renew()

    assert known.is_fresh
    assert known.may_ask("hopper", A)
    assert not known.may_ask("hopper", B)
    assert not known.may_ask("ampere", A)
    assert not known.may_ask("", A)


def test_a_rotation_is_noticed_after_two_seconds() -> None:
    ledger = Ledger()
    known = KnownSecrets(ledger.read, lambda: ledger.now)
    known.renew()
    ledger.digests = {"hopper": (digest_of(B),)}
    ledger.now = KEPT_NANOSECONDS - 1
    assert known.is_fresh
    ledger.now = KEPT_NANOSECONDS
    assert not known.is_fresh

    known.renew()

    assert (known.may_ask("hopper", A), known.may_ask("hopper", B)) == (False, True)


def test_secrets_read_last_hold_while_the_database_is_away() -> None:
    ledger = Ledger()
    known = KnownSecrets(ledger.read, lambda: ledger.now)
    known.renew()
    ledger.is_away, ledger.now = True, KEPT_NANOSECONDS

    known.renew()

    assert known.is_fresh
    assert known.may_ask("hopper", A)


def test_reviews_that_come_during_the_first_reading_wait_for_it() -> None:
    ledger = Ledger()
    is_reading, may_end = threading.Event(), threading.Event()
    readings: list[int] = []

    def read() -> Mapping[str, tuple[str, ...]]:
        readings.append(1)
        is_reading.set()
        may_end.wait(30)
        return ledger.read()

    known = KnownSecrets(read, lambda: ledger.now)
    with ThreadPoolExecutor(max_workers=2) as threads:
        first = threads.submit(known.renew)
        assert is_reading.wait(30)
        second = threads.submit(known.renew)
        # The first review of a process is no reason to refuse the second.
        assert wait([second], timeout=0.2).not_done
        may_end.set()
        wait([first, second])

    assert known.may_ask("hopper", A)
    assert len(readings) == 1


def test_an_address_is_a_secret_and_a_path_of_one_webhook() -> None:
    for path in ("/admit/hopper/pods", "/stamp/hopper", "/warn/hopper"):
        found = SECRET_PATH.fullmatch(path_with_secret(A, path))
        assert found is not None
        assert found.groups() == (A, path)
    assert SECRET_PATH.fullmatch(path_with_secret(A, "/metrics")) is None
    assert SECRET_PATH.fullmatch(path_with_secret("short", "/stamp/hopper")) is None


@pytest.mark.django_db
def test_a_forged_review_of_one_cluster_touches_no_reservation_of_another(
    webhooks: Webhooks, hopper: Cluster, llm: Project
) -> None:
    # A secret is of one cluster, and the cluster in the path is the one that it was checked for.
    assert webhooks.admit(pod(1)).is_allowed
    rows = Reservation.objects.filter(cluster=hopper)
    before = list(rows.values())
    ampere = make_cluster("ampere", is_watched=True, admission_mode="enforce")
    forged = Webhooks("ampere")

    unbound = forged.admit(pod(1))
    bind(ampere, "team-llm", llm)
    FACTS.purge()
    same = forged.admit(pod(1))
    replacing = forged.admit({**pod(1), "metadata": {**pod(1)["metadata"], "uid": "another"}})

    assert not unbound.is_allowed
    assert list(rows.values()) == before
    assert (same.status, replacing.status) == (200, 200)
    others = Reservation.objects.exclude(cluster=hopper)
    assert {one.cluster for one in others} <= {ampere}
