"""Pages of request policies: read in words, written in a form that says what is wrong."""

import html
import re
from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.test import Client, override_settings

from quotas.models import RequestPolicy
from tests.support.cast import Cast
from tests.support.quotas.asking import make_policy

PAGE = "/admin/quotas/requestpolicy/"
STEPS = [
    {"level": "organization_admin"},
    {"level": "finance", "units_from": {"large": 16}, "cost_from": "10000"},
]
IN_WORDS = "organization admin, then finance from 16 large or 10,000 EUR a month"
EXAMPLE = (
    '[{"level": "organization_admin"}, {"level": "finance", "units_from": {"large": 16}, '
    '"cost_from": "10000"}]'
)


@pytest.fixture(autouse=True)
def without_menu() -> Iterator[None]:
    with override_settings(UNFOLD={}):
        yield


def page_of(user: User, path: str = "", form: dict[str, str] | None = None) -> str:
    """Return a page as a person reads it, each run of spaces as one."""
    User.objects.update(is_staff=True)
    client = Client()
    client.force_login(User.objects.get(pk=user.pk))
    answer = client.get(PAGE + path) if form is None else client.post(PAGE + path, form)
    assert answer.status_code == (200 if form is None or answer.status_code == 200 else 302)
    return re.sub(r"[ \n]+", " ", html.unescape(answer.content.decode()))


def form_of(cast: Cast, **further: str) -> dict[str, str]:
    return {
        "organization": str(cast.acme.pk),
        "currency": "EUR",
        "steps": '[{"level": "finance"}]',
        "automatic_units": "{}",
        "automatic_cost": "",
        "escalate_after_hours": "",
        "expire_after_days": "14",
        "remind_days": "3",
        **further,
    }


def test_the_list_shows_policies_in_words(cast: Cast) -> None:
    make_policy(
        cast.acme,
        currency="EUR",
        steps=STEPS,
        automatic_units={"small": 4},
        automatic_cost="500",
        escalate_after_hours=24,
    )
    make_policy()

    page = page_of(cast.ann)

    for words in (
        IN_WORDS,
        "up to 4 small for at most 500 EUR a month",
        "after 24 hours",
        "after 30 days",
        "Every other organization",
        "nothing: a person always decides",
        "never",
    ):
        assert f"> {words} <" in page or f">{words}<" in page, words
    assert '"level"' not in page


def test_who_may_not_change_a_policy_reads_it_in_words(cast: Cast) -> None:
    policy = make_policy(cast.acme, currency="EUR", steps=STEPS)

    page = page_of(cast.ann, f"{policy.pk}/change/")

    assert IN_WORDS in page
    assert "7 days before units end" in page
    assert '"level"' not in page
    assert "<textarea" not in page


def test_the_form_shows_a_step_on_each_line_and_an_example(cast: Cast) -> None:
    policy = make_policy(cast.acme, currency="EUR", steps=STEPS)

    page = page_of(cast.frank, f"{policy.pk}/change/")

    assert (
        '[ {"level": "organization_admin"}, {"level": "finance", "cost_from": "10000", '
        '"units_from": {"large": 16}} ]</textarea>'
    ) in page
    assert f"Example: {EXAMPLE}" in page
    assert 'Example: {"small": 4, "medium": 2}' in page


def test_a_new_policy_begins_with_what_holds_without_one(cast: Cast) -> None:
    page = page_of(cast.frank, "add/")

    assert '[ {"level": "organization_admin"} ]</textarea>' in page
    assert "{}</textarea>" in page


@pytest.mark.parametrize(
    ("field", "typed", "reported"),
    [
        (
            "steps",
            '[{"level": "finance"},\n {"level" "x"}]',
            (
                "This is no JSON: line 2, column 11, expecting ':' delimiter. Write it as in "
                f"{EXAMPLE}"
            ),
        ),
        (
            "automatic_units",
            "4 small",
            (
                "This is no JSON: line 1, column 3, extra data. Write it as in "
                '{"small": 4, "medium": 2}'
            ),
        ),
        (
            "steps",
            '[{"level": "finance"}, {"level": "boss"}]',
            (
                'Step 2, level: "boss" is none. Use one of: project_lead, organization_admin, '
                "platform, finance."
            ),
        ),
        (
            "automatic_units",
            '{"tiny": 1}',
            (
                'automatic_units: "tiny" is no size. Map sizes (large, medium, small) to whole '
                'numbers of units, such as {"large": 16}.'
            ),
        ),
        ("steps", "", "This field is required."),
    ],
)
def test_what_is_wrong_is_reported_beside_its_field_with_the_remedy(
    cast: Cast, field: str, typed: str, reported: str
) -> None:
    page = page_of(cast.frank, "add/", form_of(cast, **{field: typed}))

    assert reported in page
    assert "".join(f"{typed}</textarea>".split()) in "".join(page.split())
    assert not RequestPolicy.objects.exists()


def test_an_empty_band_approves_nothing(cast: Cast) -> None:
    page_of(cast.frank, "add/", form_of(cast, automatic_units=""))

    assert RequestPolicy.objects.get().automatic_units == {}


def test_a_policy_is_changed_in_the_form(cast: Cast) -> None:
    policy = make_policy(cast.acme)

    page_of(cast.frank, f"{policy.pk}/change/", form_of(cast, steps='[{"level": "platform"}]'))

    policy.refresh_from_db()
    assert (policy.steps, policy.version) == ([{"level": "platform"}], 2)
