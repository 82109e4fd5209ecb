"""Runs of `verify`: which may not be forged, who goes on with them, and what they look at next."""

from datetime import timedelta
from io import StringIO
from typing import Any

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction
from psycopg.types.json import Jsonb

from config.verification import checks, due_run, tick
from embedded.postgres import OWNER, EmbeddedPostgres
from tenants.domain.actors import system_actor
from tenants.domain.verification import CheckedBatch
from tenants.models import AuditEntry, Verification
from tenants.selectors.clock import database_now
from tenants.selectors.verification import first_audit_cursor, verification_sentence
from tenants.services.verification import begin_verification, verify_batch
from tests.support.config.archives import signed_in
from tests.support.config.planted import unguarded, verify

ACTOR = system_actor("manage.verify")
FORGED = """
INSERT INTO tenants_verification ({id}started_at, ended_at, checks, check_name, is_nightly, cursor,
  counts, differences, difference_count, audit_count, audit_digest, begun_by, accepted_entry_id)
VALUES ({value}'2999-01-01', '2999-01-01', %s, '', true, '{{}}', '{{}}', '[]', 0, 0, '', '', 0)
"""


def refusal_of(*arguments: str) -> str:
    with pytest.raises(CommandError) as refused:
        call_command("verify", *arguments, stdout=StringIO())
    return str(refused.value)


def run_sql(statement: str, *values: Any) -> None:  # noqa: ANN401 - Values of any column.
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement, values)


@pytest.mark.django_db
def test_a_run_that_the_runtime_role_inserts_as_ended_is_begun_and_no_more() -> None:
    names = Jsonb(list(checks()))

    with pytest.raises(DatabaseError, match="permission denied"):
        run_sql(FORGED.format(id="id, ", value="9000000000000000, "), names)
    run_sql(FORGED.format(id="", value=""), names)

    made = Verification.objects.get()
    assert (made.ended_at, made.check_name) == (None, next(iter(checks())))
    assert made.started_at <= database_now()
    assert "never verified" in verification_sentence(checks=list(checks()), at=database_now())
    assert tick(database_now()) > 0
    made.refresh_from_db()
    assert made.ended_at is not None
    assert made.ended_at <= database_now()


@pytest.mark.usefixtures("committed_db")
def test_a_run_of_few_checks_or_of_a_coming_year_keeps_no_night_from_being_verified(
    owner: psycopg.Connection,
) -> None:
    few = {"audit entries": lambda _: CheckedBatch(0)}
    run = begin_verification(checks=few, is_nightly=True, at=database_now())
    verify_batch(run=run, checks=few, actor=ACTOR, at=database_now())
    assert Verification.objects.exclude(ended_at=None).count() == 1
    with unguarded(owner):
        owner.execute(
            "INSERT INTO tenants_verification (id, started_at, ended_at, checks, check_name,"
            " is_nightly, cursor, counts, differences, difference_count, audit_count, audit_digest,"
            " begun_by, accepted_entry_id) VALUES (9e15, '2999-01-01', '2999-01-01', %s, '', true,"
            " '{}', '{}', '[]', 0, 0, '', '', 0)",
            [Jsonb(list(checks()))],
        )

    sentence = verification_sentence(checks=list(checks()), at=database_now())
    due = due_run(checks(), at=database_now())

    assert sentence == "The database was never verified."
    assert due is not None
    assert (due.is_nightly, due.check_name) == (True, next(iter(checks())))


CHANGED = (
    "UPDATE tenants_verification SET check_name = 'invoice numbers'",
    "UPDATE tenants_verification SET checks = '[\"invoice numbers\"]'",
    "UPDATE tenants_verification SET check_name = ''",
    "UPDATE tenants_verification SET started_at = '2999-01-01'",
    "UPDATE tenants_verification SET differences = '[]', difference_count = 0",
    "UPDATE tenants_verification SET difference_count = 0",
    "UPDATE tenants_verification SET audit_count = 1, audit_digest = repeat('0', 64)",
)


@pytest.mark.django_db
def test_a_run_that_goes_on_keeps_what_it_found_and_leaves_out_nothing() -> None:
    run = begin_verification(checks=checks(), is_nightly=True, at=database_now())
    leaves = {"count": 7, "digest": "a" * 64}
    found = {
        **checks(),
        run.check_name: lambda _: CheckedBatch(1, ("It differs.",), None, facts=leaves),
    }
    verify_batch(run=run, checks=found, actor=ACTOR, at=database_now())

    for statement in CHANGED:
        with pytest.raises(DatabaseError, match="goes on check by check"):
            run_sql(statement)
    run_sql("UPDATE tenants_verification SET ended_at = '2999-01-01'")

    kept = Verification.objects.get()
    assert (kept.ended_at, kept.difference_count, kept.differences) == (None, 1, ["It differs."])


@pytest.mark.django_db
def test_the_tick_leaves_a_run_of_a_person_to_its_process() -> None:
    run = begin_verification(checks=checks(), cursor=first_audit_cursor(), at=database_now())
    verify_batch(run=run, checks=checks(), actor=ACTOR, at=database_now())

    tick(database_now())
    while run.check_name:
        verify_batch(run=run, checks=checks(), actor=ACTOR, at=database_now())

    assert list(Verification.objects.values_list("is_nightly", flat=True)) == [True, False]
    assert not Verification.objects.filter(ended_at=None).exists()


@pytest.mark.usefixtures("world")
def test_a_forged_run_does_not_displace_the_digest_of_earlier_ones(
    owner: psycopg.Connection,
) -> None:
    assert verify() == ""
    run = begin_verification(checks=checks(), at=database_now())
    nothing = dict.fromkeys(checks(), lambda _: CheckedBatch(0))
    while run.check_name:
        verify_batch(run=run, checks=nothing, actor=ACTOR, at=database_now())
    with unguarded(owner):
        owner.execute(
            "UPDATE tenants_auditentry SET actor_label = 'eve' WHERE action = 'billing:price:set'"
        )
        owner.execute("UPDATE tenants_auditentry e SET leaf = sha256(audit_leaf_input(e))")

    assert "an earlier verification has" in verify()


FORGED_END = """
INSERT INTO tenants_auditentry (occurred_at, actor_kind, actor_id, actor_label, action,
  object_kind, object_id, facts, leaf)
VALUES (now(), 'system', 'verification', 'verification', 'tenants:verification:end',
  'verification', '{run}', '{{"differences": 0, "audit_count": 1, "audit_digest": "{digest}"}}', '')
"""


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("run", ["77", "{last}"])
def test_a_forged_end_is_named_until_the_owner_accepts_it(
    run: str, postgres: EmbeddedPostgres, committed_db: str
) -> None:
    assert verify() == ""
    last = Verification.objects.latest("id")
    run_sql(FORGED_END.format(run=run.format(last=last.pk), digest="0" * 64))
    entry = AuditEntry.objects.latest("id")
    sentence = f"Audit entry {entry.pk} says that a verification has ended, and none has"
    assert sentence in verify()
    assert "does not own the tables" in refusal_of(f"--accept-through={entry.pk}", "--reason=Eve.")
    assert "--reason is missing" in refusal_of(f"--accept-through={entry.pk}")
    log = f"--expect-audit=1:{'0' * 64}"
    assert "accept first" in refusal_of(f"--accept-through={entry.pk}", "--reason=Eve.", log)
    for other in (1, 2**63 - 1):
        assert "no end" in refusal_of(f"--accept-through={other}", "--reason=A slip.")

    with signed_in(postgres.url(role=OWNER, database=committed_db)):
        assert verify(f"--accept-through={entry.pk}", "--reason=Eve.") == ""

    assert verify() == ""
    accepted = AuditEntry.objects.get(action="tenants:verification:accept")
    assert accepted.facts == {"accepted_entry": entry.pk, "reason": "Eve."}


@pytest.mark.usefixtures("world")
def test_the_runtime_role_accepts_nothing_and_stops_no_run_of_the_owner(
    owner: psycopg.Connection,
) -> None:
    owner.execute(
        "INSERT INTO tenants_verification (started_at, checks, check_name, is_nightly, cursor,"
        " counts, differences, difference_count, audit_count, audit_digest, begun_by,"
        " accepted_entry_id) VALUES (now(), %s, '', false, '{}', '{}', '[]', 0, 0, '', '', 0)",
        [Jsonb(list(checks()))],
    )

    with pytest.raises(DatabaseError, match="was begun by"):
        run_sql("UPDATE tenants_verification SET check_name = 'sequences' WHERE begun_by <> ''")
    with pytest.raises(DatabaseError, match="does not own it"):
        begin_verification(checks=checks(), accepted_entry_id=9, at=database_now())


@pytest.mark.usefixtures("world")
def test_entries_younger_than_an_hour_are_not_in_the_digest() -> None:
    call_command("verify", stdout=StringIO())

    assert Verification.objects.get().audit_count == 0


@pytest.mark.django_db
def test_a_day_after_the_last_night_the_next_is_due() -> None:
    tick(database_now())

    assert due_run(checks(), at=database_now()) is None
    assert due_run(checks(), at=database_now() + timedelta(hours=25)) is not None
