"""Tests of issuing, using and revoking API tokens."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from django.test import override_settings

from tenants.domain.actors import Actor, ActorKind, system_actor
from tenants.domain.errors import InvalidInputError
from tenants.domain.identity.roles import Role
from tenants.domain.refusals import (
    HolderInactiveError,
    TokenNotYoursToIssueError,
    UnauthenticatedError,
)
from tenants.models import ApiToken, AuditEntry, ServiceAccount
from tenants.selectors.actors import actor_of_token, actor_of_user, prove_token
from tenants.services.identity.memberships import grant_role
from tenants.services.identity.tokens import (
    IssuedToken,
    close_service_account,
    create_service_account,
    issue_token,
    note_token_use,
    revoke_token,
)
from tests.support.builders import AT
from tests.support.cast import Cast, make_cast
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
SEED = system_actor("seed")
LATER = AT + timedelta(days=30)


@shared_rows
def cast() -> Cast:
    return make_cast()


@pytest.fixture
def bot(cast: Cast) -> ServiceAccount:
    account = create_service_account(
        organization=cast.acme, slug="bot", name="Bot", actor=SEED, at=AT
    )
    grant_role(role=Role.PROJECT_LEAD, service_account=account, project=cast.llm, actor=SEED, at=AT)
    return account


def issue(cast: Cast, **fields: object) -> IssuedToken:
    wanted: dict[str, object] = {
        "name": "laptop",
        "expires_at": LATER,
        "user": cast.alice,
        "actor": actor_of_user(cast.alice),
        "at": AT,
    }
    return issue_token(**{**wanted, **fields})  # type: ignore[arg-type]


def test_only_a_keyed_digest_of_the_secret_is_kept(cast: Cast) -> None:
    issued = issue(cast)

    secret = issued.text.rsplit("_", 1)[1]
    stored = ApiToken.objects.values().get()
    assert stored["prefix"] == issued.text.split("_")[1]
    assert len(stored["digest"]) == 32
    assert secret not in str(stored)
    assert secret not in repr(issued)
    assert secret not in str(AuditEntry.objects.values().get())


def test_a_token_proves_its_holder_with_every_role(cast: Cast) -> None:
    issued = issue(cast)

    actor = actor_of_token(prove_token(issued.text), at=AT)

    assert actor == replace(actor_of_user(cast.alice), ends_at=LATER)


def test_a_narrower_token_may_only_what_its_scopes_say(cast: Cast) -> None:
    issued = issue(cast, scopes=["metering:usage:read"])

    actor = actor_of_token(prove_token(issued.text), at=AT)

    assert actor.may("metering:usage:read", organization_id=cast.acme.pk)
    assert not actor.may("tenants:project:write", organization_id=cast.acme.pk)


def test_scopes_never_give_what_the_holder_has_not(cast: Cast) -> None:
    issued = issue(cast, scopes=["billing:invoice:write"])

    actor = actor_of_token(prove_token(issued.text), at=AT)

    assert not actor.may("billing:invoice:write", organization_id=cast.acme.pk)


def test_under_another_pepper_no_token_is_known(cast: Cast) -> None:
    issued = issue(cast)

    with (
        override_settings(API_TOKEN_PEPPER="another-pepper-another-pepper-another"),
        pytest.raises(UnauthenticatedError) as refusal,
    ):
        prove_token(issued.text)

    assert refusal.value.message == "This API token is not known."


def test_a_wrong_secret_is_refused_as_an_unknown_prefix_is(cast: Cast) -> None:
    prefix = issue(cast).text.split("_")[1]
    messages = set()
    for text in (f"gl_{prefix}_{'0' * 64}", f"gl_{'f' * 12}_{'0' * 64}", "nonsense"):
        with pytest.raises(UnauthenticatedError) as refusal:
            prove_token(text)
        messages.add(refusal.value.message)

    assert messages == {"This API token is not known."}


def test_a_token_ends_at_its_moment(cast: Cast) -> None:
    token = prove_token(issue(cast).text)

    assert actor_of_token(token, at=LATER - timedelta(microseconds=1)).label == "alice"
    with pytest.raises(UnauthenticatedError, match="expired"):
        actor_of_token(token, at=LATER)


def test_a_revoked_token_is_refused_and_stays_revoked_at_the_first_time(cast: Cast) -> None:
    issued = issue(cast)

    revoke_token(token=issued.token, actor=SEED, at=AT + timedelta(hours=1))
    revoke_token(token=issued.token, actor=SEED, at=AT + timedelta(hours=2))

    token = prove_token(issued.text)
    assert token.revoked_at == AT + timedelta(hours=1)
    with pytest.raises(UnauthenticatedError, match="revoked"):
        actor_of_token(token, at=AT)
    assert AuditEntry.objects.filter(action="tenants:api_token:revoke").count() == 1


def test_the_token_of_a_deactivated_user_is_refused(cast: Cast) -> None:
    issued = issue(cast)
    cast.alice.is_active = False
    cast.alice.save()

    with pytest.raises(UnauthenticatedError, match="deactivated"):
        actor_of_token(prove_token(issued.text), at=AT)


def test_the_token_of_a_service_account_ends_with_account_and_organization(
    cast: Cast, bot: ServiceAccount
) -> None:
    issued = issue(cast, user=None, service_account=bot)
    working = actor_of_token(prove_token(issued.text), at=AT)
    cast.acme.state = "closed"
    cast.acme.save()

    with pytest.raises(UnauthenticatedError, match="organization"):
        actor_of_token(prove_token(issued.text), at=AT)
    close_service_account(account=bot, actor=SEED, at=AT)
    with pytest.raises(UnauthenticatedError, match="revoked"):
        actor_of_token(prove_token(issued.text), at=AT)

    assert (working.kind, working.id) == (ActorKind.SERVICE_ACCOUNT, str(bot.pk))
    assert AuditEntry.objects.get(action="tenants:service_account:close").facts == {
        "slug": "bot",
        "tokens_revoked": 1,
    }


def test_a_closed_account_is_refused_even_with_a_live_token(
    cast: Cast, bot: ServiceAccount
) -> None:
    issued = issue(cast, user=None, service_account=bot)
    ServiceAccount.objects.update(state="closed")

    with pytest.raises(UnauthenticatedError, match="closed"):
        actor_of_token(prove_token(issued.text), at=AT)


@pytest.mark.parametrize(
    ("expires_at", "code"),
    [
        (AT, "in_the_past"),
        (AT + timedelta(days=365, microseconds=1), "too_late"),
    ],
)
def test_a_token_lives_between_a_moment_and_a_year(
    cast: Cast, expires_at: datetime, code: str
) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        issue(cast, expires_at=expires_at, scopes=["no:such:thing"], name="")

    assert [(p.field, p.code) for p in refusal.value.problems] == [
        ("name", "blank"),
        ("scopes", "unknown_capability"),
        ("expires_at", code),
    ]
    assert not ApiToken.objects.exists()


def test_a_token_for_exactly_a_year_is_issued(cast: Cast) -> None:
    year = AT + timedelta(days=365)

    assert issue(cast, expires_at=year).token.expires_at == year


def test_nobody_issues_a_token_for_another_person(cast: Cast) -> None:
    for name in ("bob", "frank", "mallory"):
        with pytest.raises(TokenNotYoursToIssueError):
            issue(cast, actor=actor_of_user(getattr(cast, name)))

    assert not ApiToken.objects.exists()


def test_only_who_looks_after_an_organization_issues_for_its_accounts(
    cast: Cast, bot: ServiceAccount
) -> None:
    for name in ("bob", "carol", "dora", "ann", "mallory"):
        with pytest.raises(TokenNotYoursToIssueError):
            issue(cast, user=None, service_account=bot, actor=actor_of_user(getattr(cast, name)))

    assert issue(cast, user=None, service_account=bot).token.service_account == bot


@pytest.mark.parametrize(
    ("held", "wanted"),
    [
        (["metering:usage:read"], ["metering:usage:read"]),
        (["tenants:token:write"], []),
        (["tenants:token:write"], ["metering:usage:read"]),
    ],
)
def test_a_scoped_token_issues_no_wider_one(cast: Cast, held: list[str], wanted: list[str]) -> None:
    narrow = actor_of_token(issue(cast, scopes=held).token, at=AT)

    with pytest.raises(TokenNotYoursToIssueError):
        issue(cast, scopes=wanted, actor=narrow)

    assert ApiToken.objects.count() == 1


@pytest.mark.parametrize("scopes", [[], ["tenants:token:write"]])
def test_a_token_issues_none_that_outlives_it(
    cast: Cast, bot: ServiceAccount, scopes: list[str]
) -> None:
    """The attack: a token of one day issues one of 364 days, before it ends or is missed."""
    day = AT + timedelta(days=1)
    brief = actor_of_token(issue(cast, scopes=scopes, expires_at=day).token, at=AT)

    mine: dict[str, object] = {}
    for holder in (mine, {"user": None, "service_account": bot}):
        with pytest.raises(TokenNotYoursToIssueError) as refusal:
            issue(cast, scopes=scopes, expires_at=LATER, actor=brief, **holder)
        assert refusal.value.field == "expires_at"
        assert day.strftime("%Y-%m-%d %H:%M") in refusal.value.message
        assert "Sign in" in refusal.value.advice

    assert ApiToken.objects.count() == 1
    assert issue(cast, scopes=scopes, expires_at=day, actor=brief).token.expires_at == day


def test_a_scoped_token_issues_one_within_its_scopes(cast: Cast) -> None:
    scopes = ["metering:usage:read", "tenants:token:write"]
    narrow = actor_of_token(issue(cast, scopes=scopes).token, at=AT)

    issued = issue(cast, scopes=["metering:usage:read"], actor=narrow)

    assert issued.token.scopes == ["metering:usage:read"]


def test_who_may_not_act_gets_no_token(cast: Cast, bot: ServiceAccount) -> None:
    cast.carol.is_active = False
    cast.carol.save()
    ServiceAccount.objects.update(state="closed")

    with pytest.raises(HolderInactiveError):
        issue(cast, user=cast.carol, actor=SEED)
    with pytest.raises(HolderInactiveError):
        issue(cast, user=None, service_account=bot, actor=SEED)


def test_a_token_has_one_holder(cast: Cast, bot: ServiceAccount) -> None:
    with pytest.raises(ValueError, match="one holder"):
        issue(cast, service_account=bot)


def test_a_use_is_noted_once_in_five_minutes_and_only_by_its_holder(cast: Cast) -> None:
    token = issue(cast).token
    alice, bob = actor_of_user(cast.alice), actor_of_user(cast.bob)

    def use(actor: Actor, minutes: int) -> bool:
        return note_token_use(token=token, actor=actor, at=AT + timedelta(minutes=minutes))

    assert [use(bob, 0), use(alice, 0), use(alice, 5), use(alice, 6)] == [
        False,
        True,
        False,
        True,
    ]
    token.refresh_from_db()
    assert token.last_used_at == AT + timedelta(minutes=6)


def test_proving_a_caller_takes_two_queries(
    cast: Cast, bot: ServiceAccount, django_assert_num_queries: object
) -> None:
    text = issue(cast, user=None, service_account=bot).text

    with django_assert_num_queries(2):  # type: ignore[operator]
        actor_of_token(prove_token(text), at=AT)
