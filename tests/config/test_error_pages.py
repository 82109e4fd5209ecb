"""Tests of the pages of 400, 403 and 404: in the style of the product, and with what to do next."""

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse, HttpResponseBase
from django.test import Client

from tests.support.cast import make_cast

pytestmark = pytest.mark.django_db
REFUSED = "/admin/tenants/organization/"


def browser(*, is_staff: bool) -> Client:
    """Return the browser of a member of one project."""
    carol = make_cast().carol
    User.objects.filter(pk=carol.pk).update(is_staff=is_staff)
    client = Client()
    client.force_login(User.objects.get(pk=carol.pk))
    return client


def text_of(answer: HttpResponseBase, *, status: int) -> str:
    assert isinstance(answer, HttpResponse)
    assert answer.status_code == status
    text = answer.content.decode()
    assert "unfold/css/styles.css" in text
    return text


def test_a_page_that_no_role_opens_says_where_roles_are_shown() -> None:
    page = text_of(browser(is_staff=True).get(REFUSED), status=403)

    assert "No role of yours opens this page" in page
    assert 'href="/accounts/"' in page
    assert 'href="/admin/"' in page


@pytest.mark.parametrize("path", ["/no-such-page", "/accounts/no-such-page/"])
def test_an_address_without_a_page_leads_to_ones_own(path: str) -> None:
    page = text_of(browser(is_staff=False).get(path), status=404)

    assert "There is no page at this address" in page
    assert 'href="/accounts/"' in page
    assert 'href="/admin/"' not in page


def test_an_address_of_the_admin_without_a_page_leads_back_to_it() -> None:
    page = text_of(browser(is_staff=True).get("/admin/tenants/nothing/"), status=404)

    assert 'href="/admin/"' in page


def test_a_form_without_its_key_against_forgery_says_how_to_send_it_again() -> None:
    client = Client(enforce_csrf_checks=True)
    page = text_of(client.post("/accounts/sign-in/", {"username": "carol"}), status=403)

    assert "Go back, reload the page and send the form again." in page


@pytest.mark.parametrize(
    "path",
    ["/admin/search/?s=%00", "/admin/quotas/quotalimit/board/?organization=%00"],
)
def test_a_text_that_no_column_takes_is_refused_with_what_to_remove(path: str) -> None:
    cast = make_cast()
    User.objects.update(is_staff=True)
    client = Client()
    client.force_login(cast.frank)

    assert "Remove it from the address" in text_of(client.get(path), status=400)
