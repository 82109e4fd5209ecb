"""Who opens which tenant page, at what cost, and where the root leads people."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.http import HttpResponse, HttpResponseBase
from django.test import Client
from django.test.utils import CaptureQueriesContext

from billing.models import DailyCost
from config.app.frame import POLICY
from quotas.models import QuotaLimit, QuotaSuspension
from tests.config.app.conftest import Tenancy, browser_of
from tests.support.builders import AT, audited, make_project, make_user, new_user

TAG = re.compile("<[^>]*>")
LLM_LARGE = "requests/new/?project={llm}&size=large"
PAGES = (
    "",
    "costs/?month=2026-10",
    "costs/?month=2026-10&by=owner",
    "quota/",
    "requests/",
    LLM_LARGE,
    "requests/{asked}/",
    "invoices/",
    "invoices/{invoice}/",
    "tokens/",
)
STATUS = {
    "carol": (200, 200, 200, 200, 200, 403, 200, 200, 404, 200),
    "bob": (200, 200, 200, 200, 200, 200, 200, 200, 200, 200),
    "alice": (200, 200, 200, 200, 200, 200, 200, 200, 200, 200),
    "mallory": (200, 200, 200, 200, 200, 404, 404, 200, 404, 200),
}
STATEMENTS = {
    "": 18,
    "costs/?month=2026-10": 11,
    "costs/?month=2026-10&by=owner": 9,
    "quota/": 15,
    "requests/": 5,
    LLM_LARGE: 10,
    "requests/{asked}/": 8,
    "invoices/": 6,
    "invoices/{invoice}/": 5,
    "tokens/": 4,
}
"""Of an administrator, whose pages have most; more projects change none."""
BYTES_MAX = 300 * 1024
SECRETS = ("umbrella", "virus", "mallory", "hive-0")
"""What stands in rows of Umbrella alone."""


def open_page(client: Client, path: str, tenancy: Tenancy) -> Any:  # noqa: ANN401 - With its context.
    named = {"llm": tenancy.cast.llm.pk, "asked": tenancy.asked.pk, "invoice": tenancy.invoice.pk}
    return client.get(f"/app/{path.format(**named)}")


def html_of(answer: HttpResponseBase) -> str:
    assert isinstance(answer, HttpResponse)
    return " ".join(answer.content.decode().split())


def text_of(answer: HttpResponseBase) -> str:
    """Return the texts of a page, as HTML writes them, with a bar where there is a tag."""
    texts = (text.strip() for text in TAG.split(html_of(answer)))
    return "|".join(text for text in texts if text)


@pytest.mark.parametrize("username", STATUS)
def test_each_person_opens_the_pages_of_the_own_roles(tenancy: Tenancy, username: str) -> None:
    client = browser_of(getattr(tenancy.cast, username))

    answers = [open_page(client, path, tenancy) for path in PAGES]

    assert tuple(answer.status_code for answer in answers) == STATUS[username]
    for answer in answers:
        assert answer["Content-Security-Policy"] == POLICY
        text = html_of(answer).lower()
        assert "<script>" not in text
        assert "style=" not in text
        if username != "mallory":
            assert [secret for secret in SECRETS if secret in text] == []


def test_a_stranger_without_a_session_is_sent_to_sign_in(tenancy: Tenancy) -> None:
    for path in PAGES:
        answer = open_page(Client(), path, tenancy)

        assert (answer.status_code, answer["Location"][:25]) == (302, "/accounts/sign-in/?next=/")


def test_a_refusal_shows_its_remedy_with_its_status(tenancy: Tenancy) -> None:
    carol = browser_of(tenancy.cast.carol)

    refused = open_page(carol, "requests/new/", tenancy)
    wrong = open_page(carol, "costs/?month=soon", tenancy)
    unknown = open_page(carol, "quota/?organization=umbrella", tenancy)

    assert refused.status_code == 403
    assert "or a project lead of the project." in text_of(refused)
    assert (wrong.status_code, "The label does not name a month." in text_of(wrong)) == (422, True)
    assert unknown.status_code == 404
    assert open_page(carol, "quota/?organization=%00", tenancy).status_code == 404
    assert "Check the identifier, and that your role covers it." in text_of(unknown)
    assert carol.post("/app/quota/").status_code == 405


def test_pages_take_the_same_few_statements_for_more_projects(tenancy: Tenancy) -> None:
    alice = browser_of(tenancy.cast.alice)

    def cost() -> dict[str, int]:
        counts = {}
        for path in STATEMENTS:
            with CaptureQueriesContext(connection) as statements:
                answer = open_page(alice, path, tenancy)
            assert len(answer.content) < BYTES_MAX, path
            counts[path] = len(statements)
        return counts

    add_costs(tenancy, 1)
    few = cost()
    add_costs(tenancy, 30)
    QuotaLimit.objects.bulk_create(
        QuotaLimit(
            scope="user",
            organization=tenancy.cast.acme,
            project=project,
            user=user,
            size="large",
            limit_units=1,
            created_at=AT,
            changed_at=AT,
        )
        for user in User.objects.bulk_create(new_user(f"person-{n}") for n in range(50))
        for project in tenancy.cast.acme.projects.all()
    )

    assert few == STATEMENTS
    assert cost() == STATEMENTS


def add_costs(tenancy: Tenancy, projects: int) -> None:
    """Let so many more projects of Acme have costs of today."""
    acme, known = tenancy.cast.acme, tenancy.cast.acme.projects.count()
    DailyCost.objects.bulk_create(
        DailyCost(
            organization=acme,
            day=AT.date(),
            project=make_project(acme, f"p{known + number}"),
            owner=f"person-{number}",
            cluster_id=acme.pk,
            size="small",
            price_group="H100/1g.10gb",
            unit_price=2,
            currency="EUR",
            unit_seconds=3600,
        )
        for number in range(projects)
    )


def test_the_home_page_has_cost_use_waste_and_requests(tenancy: Tenancy) -> None:
    text = text_of(open_page(browser_of(tenancy.cast.bob), "", tenancy))

    assert "|Cost so far|0.00 EUR|" in text
    assert "|Last month|2.00 EUR|" in text
    assert "|LLM|Large|0 of 4|" in text
    assert "llm/trainer-0" in text
    assert "6 large for LLM" in text
    whole = text_of(open_page(browser_of(tenancy.cast.alice), "", tenancy))
    assert "|Last month|3.00 EUR|" in whole
    assert "|Acme|whole organization|Large|0 of 8|" in whole


def test_a_month_adds_up_for_a_lead_and_an_administrator(tenancy: Tenancy) -> None:
    cast = tenancy.cast
    path = "costs/?month=2026-10&by=project"

    lead, admin = (open_page(browser_of(one), path, tenancy) for one in (cast.bob, cast.alice))

    rows = [(row.name, row.cost) for row in lead.context["rows"]]
    assert rows == [("LLM", "2.00 EUR")]
    assert [(row.name, row.cost) for row in admin.context["rows"]] == [
        ("LLM", "2.00 EUR"),
        ("VISION", "1.00 EUR"),
    ]
    sizes = open_page(browser_of(cast.bob), "costs/?month=2026-10&by=size", tenancy)
    assert "|Small|1.0000|2.00 EUR|100.0 %|new|" in text_of(sizes)
    link = lead.context["csv"]
    csv = browser_of(cast.bob).get(link).content.decode()
    assert csv.splitlines()[1].startswith('"acme","llm","LLM","EUR",')
    assert browser_of(cast.bob).get(lead.context["twin"]).json()["totals"][0]["cost"] == {
        "amount": "2.00",
        "currency": "EUR",
    }


def test_the_root_leads_people_to_where_they_belong(tenancy: Tenancy) -> None:
    with audited():
        User.objects.filter(username__in=["frank", "alice"]).update(is_staff=True)

    def target(client: Client) -> str:
        return str(client.get("/")["Location"])

    assert target(Client()) == "/accounts/sign-in/"
    # Alice has staff status, and no role that shows anything in the admin.
    assert [target(browser_of(User.objects.get(username=one))) for one in ("frank", "alice")] == [
        "/admin/",
        "/app/",
    ]
    assert target(browser_of(tenancy.cast.carol)) == "/app/"


def test_a_person_without_a_role_is_shown_who_gives_one(tenancy: Tenancy) -> None:
    text = text_of(open_page(browser_of(make_user("newcomer")), "", tenancy))

    assert "You have no role yet." in text
    assert "Acme" not in text


def test_the_reason_of_a_suspension_is_shown_to_administrators_alone(tenancy: Tenancy) -> None:
    QuotaSuspension.objects.create(
        organization=tenancy.cast.acme, reason="Arrears of 5 EUR.", begin_at=AT
    )

    member, admin = (
        text_of(open_page(browser_of(one), "quota/", tenancy))
        for one in (tenancy.cast.carol, tenancy.cast.alice)
    )

    assert "Suspended: nothing may start until it is resumed." in member
    assert "Arrears" not in member
    assert "Reason: Arrears of 5 EUR." in admin


def test_hostile_names_are_shown_as_text(tenancy: Tenancy) -> None:
    cast = tenancy.cast
    hostile = "<script>alert(1)</script>\u202e" + "x" * 270
    cast.llm.name = hostile[:200]
    cast.llm.save(update_fields=["name"])
    cast.acme.name = hostile[:200]
    cast.acme.save(update_fields=["name"])
    tenancy.asked.justification = hostile + "y" * 30
    tenancy.asked.save(update_fields=["justification"])
    bob = browser_of(cast.bob)

    for path in PAGES:
        assert "<script>alert" not in html_of(open_page(bob, path, tenancy))
    thread = html_of(open_page(bob, "requests/{asked}/", tenancy))
    shown = "&lt;script&gt;alert(1)&lt;/script&gt;\u202e" + "x" * 270 + "y" * 30
    assert f'<p class="text" dir="auto">{shown}</p>' in thread
    home = html_of(open_page(bob, "", tenancy))
    assert "<bdi>&lt;script&gt;alert(1)&lt;/script&gt;\u202exxx" in home


def test_a_token_is_shown_once_and_revoked(tenancy: Tenancy) -> None:
    bob = browser_of(tenancy.cast.bob)
    page = open_page(bob, "tokens/", tenancy)
    form = {"key": page.context["form"]["key"].value(), "name": "laptop <b>", "days": "30"}

    issued: Any = bob.post("/app/tokens/", form)
    again = bob.post("/app/tokens/", form)

    text = issued.context["issued"].text
    assert text in issued.content.decode()
    assert again.status_code == 409
    assert text not in text_of(open_page(bob, "tokens/", tenancy))
    assert "laptop &lt;b&gt;" in text_of(open_page(bob, "tokens/", tenancy))
    headers = {"authorization": f"Bearer {text}"}
    assert Client(headers=headers).get("/api/v1/me/").status_code == 200
    token = issued.context["issued"].token
    alice = browser_of(tenancy.cast.alice)
    assert alice.post(f"/app/tokens/{token.pk}/revoke/").status_code == 404
    assert bob.post(f"/app/tokens/{token.pk}/revoke/")["Location"] == "/app/tokens/"
    assert Client(headers=headers).get("/api/v1/me/").status_code == 401
    wrong = bob.post("/app/tokens/", {**form, "days": "9999"})
    assert (wrong.status_code, 'aria-invalid="true"' in html_of(wrong)) == (422, True)
    foreign = bob.post("/app/tokens/", {**form, "key": "forged"})
    assert (foreign.status_code, "This form is not from this page." in text_of(foreign)) == (
        422,
        True,
    )
