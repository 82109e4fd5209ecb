"""Quota is asked for with headroom and price, followed, withdrawn and decided on the pages."""

from typing import Any

import pytest
from django.test import Client

from quotas.models import QuotaLimit, QuotaRequest
from tenants.domain.identifiers import new_id
from tests.config.app.conftest import Tenancy, browser_of
from tests.config.app.test_pages import html_of, text_of
from tests.support.builders import audit_entries

NEW = "/app/requests/new/"


def form_of(tenancy: Tenancy, **fields: str) -> dict[str, str]:
    return {
        "key": "key-1",
        "project": str(tenancy.cast.llm.pk),
        "size": "large",
        "requested_units": "7",
        "justification": "Two more runs.",
        **fields,
    }


@pytest.fixture
def bob(tenancy: Tenancy) -> Client:
    return browser_of(tenancy.cast.bob)


def test_headroom_and_price_are_shown_before_anything_is_sent(
    tenancy: Tenancy, bob: Client
) -> None:
    form = form_of(tenancy, justification="")

    shown = bob.post(NEW, {**form, "step": "preview"})

    text = text_of(shown)
    assert shown.status_code == 200
    assert "1 Large may start now." in text
    assert "|Free now:|4|" in text
    assert "|organization|acme|: a limit that you may not read|" in text
    # 7 units x 730 hours x 2.50 EUR.
    assert "|Now|4|Then|7|A month, used all the time|12,775.00 EUR|" in text
    assert "|Decided by|organization admin|" in text
    assert QuotaRequest.objects.count() == 1


def test_a_part_of_the_page_makes_nothing_and_shows_why_it_is_refused(
    tenancy: Tenancy, bob: Client
) -> None:
    wrong = form_of(tenancy, requested_units="many")

    answers = [
        bob.post(NEW, {**form, "step": "send"}, headers={"HX-Request": "true"})
        for form in (form_of(tenancy), wrong, {**wrong, "project": str(new_id())})
    ]

    shown, wrong_units, wrong_project = (
        one.content.decode().partition('id="preview"')[2] for one in answers
    )
    assert [one.status_code for one in answers] == [200, 200, 200]
    assert "12,775.00" in shown
    assert "Send a whole number of units from 0 to 1000000." in wrong_units
    assert "There is no such project." in wrong_project
    assert QuotaRequest.objects.count() == 1


def test_a_request_is_made_once_however_often_its_form_is_sent(
    tenancy: Tenancy, bob: Client
) -> None:
    form = form_of(tenancy, step="send")

    first, second = bob.post(NEW, form), bob.post(NEW, form)

    made = QuotaRequest.objects.exclude(pk=tenancy.asked.pk).get()
    assert first["Location"] == second["Location"] == f"/app/requests/{made.pk}/"
    assert (made.requested_units, made.justification) == (7, "Two more runs.")
    page = text_of(bob.get(first["Location"]))
    assert "7 large for LLM" in page
    assert "Two more runs." in page
    other = bob.post(NEW, {**form, "requested_units": "8"})
    assert (other.status_code, "was used for another request" in text_of(other)) == (422, True)


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"requested_units": "many"}, 422, "units"),
        ({"justification": ""}, 422, "This field is required."),
        ({"cluster": "nowhere"}, 404, "There is no such cluster."),
        ({"user": "mallory"}, 404, "No user of that name has a role in the organization."),
        ({"project": "x"}, 422, "The project is not known."),
        ({"justification": "\0"}, 422, "Null characters are not allowed."),
        ({"requested_units": "9" * 400}, 422, "units"),
        ({"begin_at": "2026-12-02T00:00", "end_at": "2026-12-01T00:00"}, 422, "end"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_beside_its_field(
    tenancy: Tenancy, bob: Client, fields: dict[str, str], status: int, message: str
) -> None:
    answer = bob.post(NEW, form_of(tenancy, step="send", **fields))

    assert answer.status_code == status
    assert message in text_of(answer)
    assert 'value="key-1"' in html_of(answer)
    assert QuotaRequest.objects.count() == 1


def test_nobody_asks_for_a_project_of_others(tenancy: Tenancy, bob: Client) -> None:
    cast = tenancy.cast
    foreign = form_of(tenancy, step="send", project=str(cast.virus.pk))

    answers = [
        bob.post(NEW, foreign),
        bob.post(NEW, {**foreign, "project": str(cast.vision.pk)}),
        browser_of(cast.carol).post(NEW, form_of(tenancy, step="send")),
    ]

    assert [answer.status_code for answer in answers] == [404, 404, 403]
    assert QuotaRequest.objects.count() == 1


def test_a_request_is_followed_and_withdrawn(tenancy: Tenancy, bob: Client) -> None:
    page = f"/app/requests/{tenancy.asked.pk}/"
    carol, mallory = browser_of(tenancy.cast.carol), browser_of(tenancy.cast.mallory)

    shown = text_of(bob.get(page))
    hidden = text_of(carol.get(page))

    assert "LLM may hold 6 large in all (now 4), from the approval on, without end." in shown
    assert "|organization admin|open|" in shown
    assert "A bigger model." in shown
    # 6 units x 730 hours x 2.50 EUR, which a member does not read.
    assert ("10,950.00 EUR" in shown, "10,950.00 EUR" in hidden) == (True, False)
    assert ("Withdraw" in shown, "Withdraw" in hidden, "Approve" in shown) == (True, False, False)
    assert mallory.post(f"{page}withdraw/").status_code == 404
    assert carol.post(f"{page}withdraw/").status_code == 403
    assert bob.get(f"{page}withdraw/")["Location"] == page
    assert bob.post(f"{page}dance/").status_code == 404

    bob.post(f"{page}comment/", {"text": "Please <b>hurry</b>."})
    done: Any = bob.post(f"{page}withdraw/", {"text": ""}, follow=True)

    text = text_of(done)
    assert "The request is withdrawn." in text
    assert "Please &lt;b&gt;hurry&lt;/b&gt;." in text
    assert QuotaRequest.objects.get().state == "cancelled"
    actions = audit_entries().filter(object_kind="quota_request").order_by("pk")
    assert [entry.action.rpartition(":")[2] for entry in actions][-2:] == ["comment", "cancel"]


def test_quota_that_was_approved_until_a_time_is_renewed(tenancy: Tenancy, bob: Client) -> None:
    alice = browser_of(tenancy.cast.alice)
    bob.post(f"/app/requests/{tenancy.asked.pk}/withdraw/", {"text": ""})
    dated = form_of(tenancy, step="send", requested_units="5", end_at="2026-12-01T00:00")
    page = bob.post(NEW, dated)["Location"]
    asked = QuotaRequest.objects.get(state="submitted")
    assert "Renew it" not in text_of(bob.get(page))
    alice.post(f"{page}approve/", {"text": ""})
    assert f'href="{NEW}?renews={asked.pk}"' in html_of(bob.get(page))
    assert "Renew it" not in text_of(browser_of(tenancy.cast.carol).get(page))

    shown = bob.get(NEW, {"renews": str(asked.pk)})
    sent = {"renews": str(asked.pk), "key": "key-2", "step": "send", "requested_units": "6"}
    small = {"project": str(tenancy.cast.vision.pk), "size": "small"}
    until = {"justification": "Longer.", "end_at": "2027-01-01T00:00"}
    first, second = (bob.post(NEW, {**sent, **until, **small}) for _ in range(2))

    assert "It continues 5 large for LLM, approved until 1 Dec 2026" in text_of(shown)
    assert 'value="5"' in html_of(shown)
    assert "Give the units to see" not in text_of(shown)
    assert first["Location"] == second["Location"]
    made = QuotaRequest.objects.get(renews=asked)
    assert (made.project, made.size, made.requested_units) == (tenancy.cast.llm, "large", 6)
    assert (made.begin_at, f"{made.end_at:%Y-%m-%d}") == (asked.end_at, "2027-01-01")
    assert bob.get(NEW, {"renews": "x"}).status_code == 404
    mallory = browser_of(tenancy.cast.mallory)
    assert mallory.get(NEW, {"renews": str(asked.pk)}).status_code in {403, 404}


def test_an_administrator_decides_on_the_page(tenancy: Tenancy, bob: Client) -> None:
    page = f"/app/requests/{tenancy.asked.pk}/"
    alice = browser_of(tenancy.cast.alice)
    assert bob.post(f"{page}approve/").status_code == 403
    assert "Approve" in text_of(alice.get(page))

    done: Any = alice.post(f"{page}approve/", {"text": "For the model."}, follow=True)

    assert "The request is approved at your level." in text_of(done)
    assert QuotaLimit.objects.get(project=tenancy.cast.llm).limit_units == 6
    text = text_of(bob.get(page))
    assert "LLM may hold 6 large in all (4 until then)" in text
    assert "For the model." in text
    late = bob.post(f"{page}withdraw/")
    assert (late.status_code, "can no longer be" in text_of(late)) == (409, True)
