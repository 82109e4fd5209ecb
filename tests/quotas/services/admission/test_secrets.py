"""Secrets of webhook addresses: two in force at most, kept as hashes, and each change audited."""

from datetime import timedelta

import pytest

from quotas.domain.admission.secrets import digest_of, is_one_of
from quotas.models import WebhookSecret
from quotas.selectors.admission.secrets import webhook_digests
from quotas.services.admission.secrets import add_webhook_secret, end_webhook_secrets
from tenants.domain.actors import system_actor
from tenants.models import AuditEntry, Cluster
from tests.support.builders import AT, audited, make_cluster
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
ACTOR = system_actor("tests")
SECRETS = ("a" * 43, "b" * 43, "c" * 43)


@shared_rows
def hopper() -> Cluster:
    return make_cluster("hopper")


def add(cluster: Cluster, secret: str, *, minutes: int = 0) -> None:
    at = AT + timedelta(minutes=minutes)
    add_webhook_secret(cluster=cluster, secret=secret, actor=ACTOR, at=at)


def in_force(secret: str) -> bool:
    return is_one_of(secret, webhook_digests().get("hopper", ()))


def entries() -> list[tuple[str, str, dict[str, object]]]:
    rows = AuditEntry.objects.filter(action__startswith="quotas:webhook_secret").order_by("pk")
    return list(rows.values_list("action", "object_id", "facts"))


def test_a_new_secret_leaves_the_one_before_it_in_force_and_no_older(hopper: Cluster) -> None:
    other = make_cluster("ampere")
    add(other, "x" * 43)
    for number, secret in enumerate(SECRETS):
        add(hopper, secret, minutes=number)

    assert [in_force(secret) for secret in SECRETS] == [False, True, True]
    assert webhook_digests()["ampere"] == (digest_of("x" * 43),)
    assert [(action, facts) for action, where, facts in entries() if where == str(hopper.pk)] == [
        ("quotas:webhook_secret:create", {"in_force": 1, "ended": 0}),
        ("quotas:webhook_secret:create", {"in_force": 2, "ended": 0}),
        ("quotas:webhook_secret:create", {"in_force": 2, "ended": 1}),
    ]


def test_nothing_that_is_stored_shows_a_secret(hopper: Cluster) -> None:
    add(hopper, SECRETS[0])

    (row,) = WebhookSecret.objects.values()
    assert row["digest"] == digest_of(SECRETS[0])
    stored = f"{row} {list(AuditEntry.objects.values())} {WebhookSecret.objects.get()}"
    assert SECRETS[0] not in stored


def test_old_secrets_and_all_of_them_are_ended(hopper: Cluster) -> None:
    for number, secret in enumerate(SECRETS[:2]):
        add(hopper, secret, minutes=number)

    def end(*, is_newest_kept: bool) -> int:
        at = AT + timedelta(hours=1)
        return end_webhook_secrets(
            cluster=hopper, is_newest_kept=is_newest_kept, actor=ACTOR, at=at
        )

    assert end(is_newest_kept=True) == 1
    assert [in_force(secret) for secret in SECRETS[:2]] == [False, True]
    assert end(is_newest_kept=True) == 0
    assert end(is_newest_kept=False) == 1

    assert webhook_digests() == {}
    assert [facts for _, _, facts in entries()][2:] == [
        {"in_force": 1, "ended": 1},
        {"in_force": 0, "ended": 1},
    ]


def test_an_archived_cluster_has_no_secret_in_force(hopper: Cluster) -> None:
    add(hopper, SECRETS[0])
    with audited():
        Cluster.objects.filter(pk=hopper.pk).update(state="archived")

    assert webhook_digests() == {}
