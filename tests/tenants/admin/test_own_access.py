"""The pages of one's own: people without staff status sign in and get an API token themselves."""

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from tenants.admin.programs import new_token_key
from tenants.domain.identity.roles import CAPABILITIES, Role
from tenants.models import AccountChange, ApiToken, AuditEntry
from tenants.selectors.actors import actor_of_user
from tenants.services.identity.account_changes import approve_change
from tests.support.builders import audited, grant, make_user
from tests.support.cast import Cast, make_cast
from tests.support.shared_rows import shared_rows
from tests.support.tenants.clients import api_client
from tests.support.tenants.desk import committed, enter, links_sent

pytestmark = pytest.mark.django_db
HERE, SIGN_IN, TOKENS = "/accounts/", "/accounts/sign-in/", "/accounts/tokens/"
FIRST = "/accounts/first-token/"
ME = "/api/v1/me/"
PASSWORD = "correct horse battery"
NEW = "a much longer phrase"
TOKEN = re.compile(r"gl_[0-9a-f]{12}_[0-9a-f]{64}")
KEY = re.compile(r'name="key" value="([^"]+)"')


@shared_rows
def cast() -> Cast:
    """Return the cast; none of them has staff status."""
    return make_cast()


def sign_in(username: str, password: str = PASSWORD, **where: str) -> Client:
    """Return a browser that has filled in the page."""
    client = Client(REMOTE_ADDR="192.0.2.1")
    client.post(SIGN_IN, {"username": username, "password": password, **where})
    return client


def is_signed_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


def issue(client: Client, **fields: object) -> str:
    """Fill in the form of the page and return the answer."""
    key = fields.pop("key", None) or KEY.findall(client.get(HERE).content.decode())[0]
    form = {"name": "laptop", "days": 30, "key": key, **fields}
    return client.post(TOKENS, form).content.decode()


def bearer(text: str) -> int:
    return int(Client(headers={"authorization": f"Bearer {text}"}).get(ME).status_code)


def test_an_invited_person_gets_from_the_mail_to_an_api_token(cast: Cast) -> None:
    alice = api_client(cast.alice)
    with committed():
        alice.post(
            "/api/v1/invitations/",
            {"email": "eve@example.test", "role": "member", "project": str(cast.llm.pk)},
            headers={"idempotency-key": "eve"},
        )
    [invitation] = links_sent()
    browser = Client()
    with committed():
        browser.post(invitation, {"username": "eve"})
    shown = browser.get(links_sent()[-1], follow=True)
    done = browser.post(
        shown.redirect_chain[-1][0], {"new_password1": NEW, "new_password2": NEW}, follow=True
    ).content.decode()

    assert f'href="{HERE}"' in done
    assert browser.get(HERE)["Location"] == f"{SIGN_IN}?next={HERE}"
    eve = sign_in("eve", NEW)
    text = TOKEN.findall(issue(eve))[0]

    assert not User.objects.get(username="eve").is_staff
    assert bearer(text) == 200
    assert not TOKEN.search(eve.get(HERE).content.decode())
    issued = AuditEntry.objects.filter(object_kind="api_token").latest("pk")
    assert (issued.action, issued.actor_label) == ("tenants:api_token:create", "eve")


def test_guesses_at_this_page_and_at_the_admins_count_together(cast: Cast) -> None:
    carol = cast.carol.username
    for number in range(20):
        path = SIGN_IN if number % 2 else "/admin/login/"
        Client(REMOTE_ADDR="203.0.113.9").post(path, {"username": carol, "password": "wrong"})
    client = Client(REMOTE_ADDR="203.0.113.9")
    page = client.post(SIGN_IN, {"username": carol, "password": PASSWORD})

    assert "Too many attempts failed" in page.content.decode()
    assert (page.status_code, page.has_header("Retry-After")) == (429, True)
    assert not is_signed_in(client)
    assert is_signed_in(sign_in("dora"))
    refused = AuditEntry.objects.filter(action="tenants:sign_in:refuse")
    assert [entry.facts["network"] for entry in refused] == ["203.0.113.9/32"]


def test_a_sign_in_is_audited_and_leads_nowhere_else(cast: Cast) -> None:
    client = Client()
    answer = client.post(
        f"{SIGN_IN}?next=https://evil.example.test/", {"username": "carol", "password": PASSWORD}
    )

    assert answer["Location"] == "/"
    assert AuditEntry.objects.get(action="tenants:sign_in:succeed").object_id == str(cast.carol.pk)
    with audited():
        User.objects.filter(pk=cast.dora.pk).update(is_staff=True, is_active=True)
        User.objects.filter(pk=cast.bob.pk).update(is_active=False)
    assert sign_in("dora").get(SIGN_IN)["Location"] == "/"
    assert sign_in("dora").get("/")["Location"] == "/admin/"
    assert not is_signed_in(sign_in("bob"))
    assert client.post("/accounts/sign-out/")["Location"] == SIGN_IN
    assert not is_signed_in(client)


def test_the_first_token_of_a_platform_role_takes_a_second_person_here_too(cast: Cast) -> None:
    key = new_token_key(actor_of_user(cast.dora))
    page = issue(sign_in(cast.dora.username), key=key)

    assert "The first token of dora takes a second person. Ask for it under Your access" in page
    assert not ApiToken.objects.exists()
    refused = AuditEntry.objects.get(action="tenants:api_token:refuse")
    assert refused.actor_label == "dora"


def test_a_finance_admin_without_staff_status_asks_here_for_the_first_token(cast: Cast) -> None:
    fiona = make_user("fiona")
    grant(fiona, Role.PLATFORM_ADMIN)
    dora = sign_in(cast.dora.username)

    before = dora.get(HERE).content.decode()
    asked = dora.post(FIRST, follow=True).content.decode()
    again = dora.post(FIRST, follow=True).content.decode()
    change = AccountChange.objects.get()
    approve_change(change_id=change.pk, actor=actor_of_user(fiona), at=timezone.now())

    assert cast.dora.is_staff is False
    assert f'action="{FIRST}"' in before
    assert not KEY.search(before)
    assert (change.kind, change.subject, change.requested_by) == (
        "first_token",
        cast.dora,
        cast.dora,
    )
    assert "You asked for your first token" in asked
    assert f'action="{FIRST}"' not in asked
    assert "is asked for" in again
    assert TOKEN.search(issue(dora))


def test_a_first_token_that_cannot_be_asked_for_here_says_why(cast: Cast) -> None:
    alone = sign_in(cast.dora.username).post(FIRST, follow=True).content.decode()
    carol = sign_in(cast.carol.username)

    assert "This takes two platform admins and a mail server." in alone
    assert f'action="{FIRST}"' not in carol.get(HERE).content.decode()
    grant(make_user("fiona"), Role.PLATFORM_ADMIN)
    assert "does not need this" in carol.post(FIRST, follow=True).content.decode()
    assert not AccountChange.objects.exists()


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"days": 366}, "less than or equal to 365"),
        ({"name": ""}, "This field is required"),
        ({"scopes": "billing:everything"}, "is not a capability"),
    ],
)
def test_a_wrong_field_is_named(cast: Cast, fields: dict[str, object], sentence: str) -> None:
    assert sentence in issue(sign_in(cast.carol.username), **fields)
    assert not ApiToken.objects.exists()


def test_reloading_the_page_with_the_new_token_issues_no_second_one(cast: Cast) -> None:
    carol = sign_in(cast.carol.username)
    opened = carol.get(HERE).content.decode()
    form = {"name": "laptop", "days": 30, "key": KEY.findall(opened)[0]}

    shown = carol.post(TOKENS, form).content.decode()
    reloaded = carol.post(TOKENS, form, follow=True)

    assert len(TOKEN.findall(shown)) == 1
    assert reloaded.redirect_chain == [(HERE, 302)]
    assert "This form issued its token before" in reloaded.content.decode()
    assert not TOKEN.search(reloaded.content.decode())
    assert ApiToken.objects.count() == 1


@pytest.mark.parametrize("key", ["", "forged", "of another person"])
def test_only_a_form_of_ones_own_page_issues_a_token(cast: Cast, key: str) -> None:
    if key == "of another person":
        key = KEY.findall(sign_in(cast.bob.username).get(HERE).content.decode())[0]
    carol = sign_in(cast.carol.username)

    answer = carol.post(TOKENS, {"name": "laptop", "days": 30, "key": key})

    assert "Send the form below once more." in answer.content.decode()
    assert not ApiToken.objects.exists()


def test_one_ends_ones_own_tokens_and_no_others(cast: Cast) -> None:
    carol = enter(cast.carol)
    own, others = (
        TOKEN.findall(issue(carol, scopes="tenants:project:read"))[0],
        api_client(cast.bob),
    )
    bobs = ApiToken.objects.get(user=cast.bob)
    mine = ApiToken.objects.get(user=cast.carol)
    assert mine.scopes == ["tenants:project:read"]

    refused = carol.post(f"{TOKENS}{bobs.pk}/end/", follow=True).content.decode()
    carol.post(f"{TOKENS}{mine.pk}/end/")

    assert "There is no such" in refused
    assert (bearer(own), others.get(ME).status_code) == (401, 200)
    assert mine.prefix not in carol.get(HERE).content.decode()


def test_a_new_password_ends_the_tokens_and_keeps_this_session(cast: Cast) -> None:
    here, phone = sign_in("carol"), sign_in("carol")
    text = TOKEN.findall(issue(here))[0]

    wrong = {"old_password": "wrong", "new_password1": NEW, "new_password2": NEW}
    here.post("/accounts/password/", wrong)
    assert bearer(text) == 200
    page = here.post("/accounts/password/", {**wrong, "old_password": PASSWORD}, follow=True)

    assert "The password is changed" in page.content.decode()
    assert bearer(text) == 401
    assert [client.get(ME).status_code for client in (here, phone)] == [200, 401]
    assert is_signed_in(sign_in(cast.carol.username, NEW))


def test_who_signs_in_again_for_what_is_only_posted_comes_to_the_page(cast: Cast) -> None:
    client = sign_in("carol", next=TOKENS)

    answers = [
        client.get(TOKENS),
        client.get(f"{TOKENS}{cast.acme.pk}/end/"),
        client.get("/accounts/sessions/end/"),
        client.get(f"{SIGN_IN}?next={SIGN_IN}"),
    ]

    assert [(answer.status_code, answer.headers["location"]) for answer in answers] == [
        *[(302, HERE)] * 3,
        (302, "/"),
    ]
    assert not ApiToken.objects.exists()


def test_a_wrong_password_says_where_whom_it_is_about_signs_in(cast: Cast) -> None:
    page = sign_in("carol", "wrong").post(SIGN_IN, {"username": "carol", "password": "wrong"})
    admin = Client().post("/admin/login/", {"username": "carol", "password": PASSWORD})

    assert cast.carol.is_staff is False
    assert "staff" not in page.content.decode()
    assert "All others sign in at /accounts/." in admin.content.decode()


def test_the_page_shows_what_one_is_and_what_scopes_may_name(cast: Cast) -> None:
    bob = sign_in(cast.bob.username).get(HERE)
    dora = sign_in(cast.dora.username).get(HERE).content.decode()
    nobody = sign_in(make_user("newcomer").username).get(HERE).content.decode()

    page = bob.content.decode()
    assert "Project lead" in page
    assert "project LLM of Acme" in page
    assert "bob@example.test" in page
    assert bob.context["capabilities"] == sorted(CAPABILITIES[Role.PROJECT_LEAD])
    assert "<code>quotas:request:submit</code>" in page
    assert "every organization" in dora
    assert "You have no role yet" in nobody


@pytest.mark.parametrize(
    ("agent", "label"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
        ("Mozilla/5.0 (Windows NT 10.0) Chrome/140.0 Safari/537.36 Edg/140.0", "Edge on Windows"),
        ("Mozilla/5.0 (Macintosh; Mac OS X) Version/18 Safari/605.1.15", "Safari on macOS"),
        ("Mozilla/5.0 (Linux; Android 16) Chrome/140.0 Safari/537.36", "Chrome on Android"),
        ("curl/8.14", "curl/8.14"),
        ("", "unknown"),
    ],
)
def test_a_browser_is_named_as_people_know_it(cast: Cast, agent: str, label: str) -> None:
    client = Client(headers={"user-agent": agent})
    client.post(SIGN_IN, {"username": cast.carol.username, "password": PASSWORD})

    [session] = client.get(HERE).context["sessions"]

    assert session.browser == label
