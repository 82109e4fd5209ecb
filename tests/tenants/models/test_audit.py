"""Tests of the audit trail: rows are only ever added, and each carries the hash of its content."""

import json
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import product

import psycopg
import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError, connection, transaction

from tenants.domain.actors import system_actor
from tenants.models import AuditEntry, Membership
from tenants.selectors.actors import actor_of_user
from tenants.selectors.audit import leaf_mismatches
from tenants.services.audit import record
from tenants.services.identity.tokens import issue_token
from tests.support.builders import AT, make_organization
from tests.support.cast import make_cast

STATEMENTS = [
    "UPDATE tenants_auditentry SET actor_label = 'nobody'",
    "DELETE FROM tenants_auditentry",
    "TRUNCATE tenants_auditentry",
]


def write_entries(count: int = 1) -> None:
    acme = make_organization()
    for number in range(count):
        with transaction.atomic():
            record(
                actor=system_actor("tests"),
                at=AT,
                action="tenants:test:note",
                object_kind="test",
                object_id=number,
                organization_id=acme.pk if number % 2 else None,
                facts={"größe": number, "nested": {"b": [1, None, "x"], "a": True}},
            )


@pytest.mark.usefixtures("committed_db")
def test_the_runtime_role_cannot_touch_an_entry() -> None:
    write_entries()

    for statement in STATEMENTS:
        with (
            pytest.raises(DatabaseError, match=r"permission denied|append-only"),
            connection.cursor() as cursor,
        ):
            cursor.execute(statement)

        assert AuditEntry.objects.get().actor_label == "tests", statement


def test_even_a_superuser_cannot_touch_an_entry(superuser_url: str) -> None:
    write_entries()

    for role, statement in product(("origin", "replica"), STATEMENTS):
        with psycopg.connect(superuser_url, autocommit=True) as superuser:
            superuser.execute(f"SET session_replication_role = {role}")
            with pytest.raises(psycopg.errors.RestrictViolation, match="append-only"):
                superuser.execute(statement)

        assert AuditEntry.objects.get().actor_label == "tests", (role, statement)


@pytest.mark.django_db
def test_the_leaf_recomputed_in_python_is_the_one_of_the_database() -> None:
    write_entries(4)

    assert leaf_mismatches() == []
    assert all(len(bytes(entry.leaf)) == 32 for entry in AuditEntry.objects.all())


@pytest.mark.django_db
def test_a_leaf_cannot_be_chosen_by_the_writer() -> None:
    AuditEntry.objects.create(
        occurred_at=AT,
        actor_kind="system",
        actor_id="x",
        actor_label="x",
        action="a:b:c",
        object_kind="k",
        object_id="1",
        leaf=b"chosen",
    )

    assert bytes(AuditEntry.objects.get().leaf) != b"chosen"
    assert leaf_mismatches() == []


@pytest.mark.django_db
def test_the_time_in_the_leaf_does_not_depend_on_the_zone_of_the_session() -> None:
    write_entries()
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL TIME ZONE 'Asia/Kolkata'")

    assert leaf_mismatches() == []


def execute(*statements: str) -> None:
    """Run statements in one transaction as the runtime role."""
    with transaction.atomic(), connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def not_refused(
    *transactions: tuple[str, ...], refusal: str = "leaves no audit entry"
) -> list[tuple[str, ...]]:
    """Return the transactions that the database does not refuse for this reason."""
    found = []
    for statements in transactions:
        try:
            execute(*statements)
        except DatabaseError as error:
            if refusal in str(error):
                continue
        found.append(statements)
    return found


ENTRY = (
    "INSERT INTO tenants_auditentry ({columns}occurred_at, actor_kind, actor_id, actor_label,"
    " action, object_kind, object_id, facts) SELECT {values}now(), 'person', '1', 'frank',"
    " 'tenants:user:update', 'user', {about}, '{{}}'"
)
PLAIN = ENTRY.format(
    columns="",
    values="",
    about="(SELECT id FROM auth_user WHERE username = 'alice')",
)
OF_FRANK = PLAIN.replace("username = 'alice'", "username = 'frank'")


@pytest.mark.usefixtures("committed_db")
def test_the_runtime_role_cannot_choose_an_entrys_id() -> None:
    with pytest.raises(DatabaseError, match="permission denied"):
        execute(ENTRY.format(columns="id, ", values="1000000, ", about="1"))
    with pytest.raises(DatabaseError, match="permission denied"):
        execute(
            ENTRY.format(columns="id, ", values="1000000, ", about="1").replace(
                ") SELECT", ") OVERRIDING SYSTEM VALUE SELECT"
            )
        )

    assert not AuditEntry.objects.exists()


@pytest.mark.usefixtures("committed_db")
def test_the_time_and_the_transaction_of_an_entry_are_the_databases() -> None:
    execute(
        ENTRY.format(
            columns="recorded_at, transaction_id, leaf, ",
            values="'2020-01-01Z', 1, '\\x00', ",
            about="1",
        )
    )

    entry = AuditEntry.objects.get()
    assert entry.recorded_at is not None
    assert abs(datetime.now(UTC) - entry.recorded_at) < timedelta(minutes=1)
    assert entry.transaction_id is not None
    assert entry.transaction_id > 1
    assert leaf_mismatches() == []


ROLE_ENTRY = (
    "INSERT INTO tenants_auditentry (occurred_at, actor_kind, actor_id, actor_label, action,"
    " object_kind, object_id, facts) VALUES (now(), 'person', '1', 'frank',"
    " 'tenants:membership:create', 'membership', '00000000-0000-0000-0000-000000000001',"
    """ '{{"role": "{role}", "holder": "{holder}"}}')"""
)
RAISES_ALICE = (
    "INSERT INTO tenants_membership (id, user_id, role, created_at)"
    " SELECT '00000000-0000-0000-0000-000000000001', id, 'finance_admin', now()"
    " FROM auth_user WHERE username = 'alice'"
)
MAKES_SUPERUSER = "UPDATE auth_user SET is_superuser = true WHERE username = 'alice'"
UNSEEN = [
    "UPDATE auth_user SET email = 'x@example.test' WHERE username = 'alice'",
    "UPDATE auth_user SET password = 'x' WHERE username = 'alice'",
    "UPDATE auth_user SET last_login = now(), is_staff = true WHERE username = 'alice'",
    """INSERT INTO auth_user (username, password, email, first_name, last_name, is_active,
       is_staff, is_superuser, date_joined)
       VALUES ('eve', '', '', '', '', true, true, true, now())""",
    "UPDATE tenants_membership SET role = 'platform_admin' WHERE role = 'finance_admin'",
    "DELETE FROM tenants_membership",
    """INSERT INTO tenants_membership (id, user_id, role, created_at)
       SELECT gen_random_uuid(), id, 'platform_admin', now() FROM auth_user
        WHERE username = 'alice'""",
    "UPDATE tenants_apitoken SET expires_at = now() + interval '1 day', revoked_at = NULL",
    "UPDATE tenants_apitoken SET digest = '\\x00', last_used_at = now()",
]


@pytest.fixture
def people(committed_db: str) -> None:  # noqa: ARG001 - What is made here commits.
    """A person with a role and a token."""
    cast = make_cast()
    issue_token(
        name="laptop",
        expires_at=AT + timedelta(days=30),
        user=cast.alice,
        actor=actor_of_user(cast.alice),
        at=AT,
    )


@pytest.mark.usefixtures("people")
def test_people_roles_and_tokens_do_not_change_without_an_entry_about_them() -> None:
    """The attack: SQL as the service's own role, beside no entry or a true one about another."""
    alone = [(statement,) for statement in UNSEEN]
    beside = [(OF_FRANK, statement) for statement in UNSEEN]

    assert not_refused(*alone, *beside) == []


def about_alice(action: str, facts: str = "{}") -> str:
    """Return SQL that adds an entry about Alice."""
    return PLAIN.replace("tenants:user:update", action).replace("'{}'", f"'{facts}'")


@pytest.mark.usefixtures("people")
def test_an_entry_of_another_call_about_the_same_person_does_not_count() -> None:
    """The attack: an honest service's entry about the person covers what it does not name."""
    actions = ("tenants:session:end", "tenants:user:password_link")
    entries = [about_alice(action) for action in actions]

    assert not_refused(*product(entries, [*UNSEEN, RAISES_ALICE])) == []


CHANGED = '{"changed": {"%s": [%s, %s]}}'
UPDATE = "tenants:user:update"


@pytest.mark.usefixtures("people")
def test_an_entry_that_says_something_else_of_the_change_does_not_count() -> None:
    transactions = [
        (about_alice(UPDATE, CHANGED % ("first_name", '""', '"A"')), UNSEEN[0]),
        (about_alice(UPDATE, CHANGED % ("email", '"alice@example.test"', '"a@x.y"')), UNSEEN[0]),
        (about_alice(UPDATE, CHANGED % ("is_staff", "true", "false")), UNSEEN[2]),
        (about_alice("tenants:user:activate"), UNSEEN[1]),
        (about_alice("tenants:user:password"), UNSEEN[7]),
        (ROLE_ENTRY.format(role="member", holder="alice"), RAISES_ALICE),
        (ROLE_ENTRY.format(role="finance_admin", holder="bob"), RAISES_ALICE),
    ]

    assert not_refused(*transactions) == []


@pytest.mark.usefixtures("people")
def test_a_role_is_given_with_an_entry_that_names_it_and_its_holder() -> None:
    execute(ROLE_ENTRY.format(role="finance_admin", holder="alice"), RAISES_ALICE)

    assert Membership.objects.filter(user__username="alice", role="finance_admin").exists()


ADMIN_OF_UMBRELLA = (
    "INSERT INTO tenants_membership (id, user_id, organization_id, role, created_at)"
    " SELECT '00000000-0000-0000-0000-000000000001', u.id, o.id, 'organization_admin', now()"
    " FROM auth_user u, tenants_organization o WHERE u.username = 'alice' AND o.slug = 'umbrella'"
)
OF_ORGANIZATION = (
    "INSERT INTO tenants_auditentry (occurred_at, actor_kind, actor_id, actor_label, action,"
    " object_kind, object_id, facts, organization_id) SELECT now(), 'person', '1', 'frank',"
    " 'tenants:{kind}:create', '{kind}', '00000000-0000-0000-0000-000000000001', '{facts}',"
    " (SELECT id FROM tenants_organization WHERE slug = '{slug}')"
)


@pytest.mark.usefixtures("people")
def test_a_role_is_given_with_an_entry_of_its_own_organization_only() -> None:
    """The attack: another organization's trail, or none, has the entry of the new admin."""
    facts = json.dumps({"role": "organization_admin", "holder": "alice"})
    entry = partial(OF_ORGANIZATION.format, kind="membership", facts=facts)

    for slug in ("acme", "none"):
        with pytest.raises(DatabaseError, match="leaves no audit entry"):
            execute(entry(slug=slug), ADMIN_OF_UMBRELLA)
    execute(entry(slug="umbrella"), ADMIN_OF_UMBRELLA)

    assert Membership.objects.filter(user__username="alice", organization__slug="umbrella").exists()


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize(
    ("end", "slug"), [("2026-11-03T00:00:00+00:00", "none"), ("2026-12-24T00:00:00Z", "acme")]
)
def test_a_token_is_issued_with_an_entry_that_says_its_end(end: str, slug: str) -> None:
    """The attack: the trail shows a token of a day, and it is good for weeks."""
    facts = {"prefix": "p" * 8, "holder": "alice", "scopes": [], "expires_at": end}
    issues = (
        "INSERT INTO tenants_apitoken SELECT (jsonb_populate_record(t, jsonb_build_object("
        "'id', '00000000-0000-0000-0000-000000000001', 'prefix', repeat('p', 8),"
        " 'digest', 'x', 'expires_at', '2026-12-24T00:00:00Z'))).* FROM tenants_apitoken t"
    )

    with pytest.raises(DatabaseError, match="leaves no audit entry"):
        execute(
            OF_ORGANIZATION.format(kind="api_token", facts=json.dumps(facts), slug=slug), issues
        )


@pytest.mark.usefixtures("people")
def test_they_change_with_an_entry_in_the_same_transaction() -> None:
    change = "UPDATE auth_user SET is_staff = true WHERE username = 'alice'"
    opens = about_alice(UPDATE, CHANGED % ("is_staff", "false", "true"))
    closes = about_alice(UPDATE, CHANGED % ("is_staff", "true", "false"))

    execute(opens, change)
    execute(change.replace("true", "false"), closes)
    execute(opens)
    with pytest.raises(DatabaseError, match="leaves no audit entry"):
        execute(change)

    assert not User.objects.get(username="alice").is_staff


@pytest.mark.usefixtures("people")
def test_a_role_does_not_move_to_the_person_that_the_entry_names() -> None:
    with pytest.raises(DatabaseError, match="leaves no audit entry"):
        execute(
            PLAIN,
            "UPDATE tenants_membership SET user_id = (SELECT id FROM auth_user"
            " WHERE username = 'alice') WHERE role = 'finance_admin'",
        )


@pytest.mark.usefixtures("people")
def test_nobody_becomes_a_superuser_with_an_entry_either() -> None:
    entry = about_alice(UPDATE, CHANGED % ("is_superuser", "false", "true"))

    with pytest.raises(DatabaseError, match="leaves no audit entry"):
        execute(entry, MAKES_SUPERUSER)


@pytest.mark.usefixtures("people")
def test_a_superuser_is_made_by_the_host_in_an_entry_that_says_so() -> None:
    facts = {"username": "eve", "email": "", "is_staff": True, "is_superuser": True}
    true = about_alice("tenants:user:create", json.dumps(facts)).replace("'alice'", "'eve'")
    of_the_host = true.replace("'person'", "'system'")
    silent = of_the_host.replace('"is_superuser": true', '"is_superuser": false')

    for entry in (true, silent):
        with pytest.raises(DatabaseError, match="leaves no audit entry"):
            execute(UNSEEN[3], entry)
    execute(UNSEEN[3], of_the_host)

    assert User.objects.get(username="eve").is_superuser


@pytest.mark.usefixtures("people")
def test_a_revoked_token_is_not_let_in_again() -> None:
    revoke = "UPDATE tenants_apitoken SET revoked_at = now()"
    execute(about_alice("tenants:user:password"), revoke)

    with pytest.raises(DatabaseError, match="leaves no audit entry"):
        execute(about_alice("tenants:user:password"), revoke.replace("now()", "NULL"))


@pytest.mark.usefixtures("people")
def test_an_entry_that_is_rolled_back_to_a_savepoint_does_not_count() -> None:
    with pytest.raises(DatabaseError, match="leaves no audit entry"):
        execute("SAVEPOINT a", PLAIN, "ROLLBACK TO a", UNSEEN[0])


@pytest.mark.usefixtures("people")
def test_a_note_of_use_needs_no_entry() -> None:
    execute(
        "UPDATE auth_user SET last_login = now()",
        "UPDATE tenants_apitoken SET last_used_at = now()",
    )

    assert User.objects.filter(last_login=None).count() == 0


@pytest.mark.usefixtures("people")
def test_nobody_and_no_token_is_deleted() -> None:
    deleting = [(PLAIN, "DELETE FROM auth_user"), (PLAIN, "DELETE FROM tenants_apitoken")]

    assert not_refused(*deleting, refusal="permission denied") == []
