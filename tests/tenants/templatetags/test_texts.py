"""Figures, states, times and roles in the language of the person."""

from datetime import UTC, datetime

import pytest
from django.template import Context, Template
from django.utils.safestring import SafeString
from django.utils.translation import override

from billing.access import READ_INVOICE, WRITE_INVOICE, WRITE_PRICE
from tenants.domain.identity.granting import holders_of, who_may
from tenants.domain.identity.roles import CAPABILITIES, RoleScope
from tenants.templatetags.texts import (
    ROLES,
    english,
    figure,
    hours_text,
    minute_text,
    value_text,
    who_may_text,
)

NOON = datetime(2026, 10, 5, 12, tzinfo=UTC)
EVENING = datetime(2026, 10, 5, 18, 30, tzinfo=UTC)
FIGURES = {
    "1,234.50 EUR": "1.234,50 EUR",
    "-0.40 EUR": "-0,40 EUR",
    "1,234,567": "1.234.567",
    "98.0 %": "98,0 %",
    "about 12.00 EUR, 3 of them free.": "about 12,00 EUR, 3 of them free.",
    "H100/1g.10gb": "H100/1g.10gb",
    "2026-10-31": "2026-10-31",
    "Acme, Ltd.": "Acme, Ltd.",
    "": "",
}
"""English numbers, and how a German page writes them; names and days stay as they are."""
STATES = {
    "part_paid": "teilweise bezahlt",
    "final": "festgeschrieben",
    "draft": "Entwurf",
    "ready for review": "bereit zur Prüfung",
    "unbound_namespace": "Namespace ohne Projekt",
    "written_off": "ausgebucht",
    "": "",
    "no such state": "no such state",
}


@pytest.mark.parametrize("text", FIGURES)
def test_a_number_has_the_marks_of_the_language(text: str) -> None:
    with override("de"):
        assert figure(text) == FIGURES[text]
    with override("en"):
        assert figure(text) == text


@pytest.mark.parametrize("state", STATES)
def test_a_state_is_read_in_the_language(state: str) -> None:
    with override("de"):
        assert value_text(state) == STATES[state]
    with override("en"):
        assert value_text(state) == state.replace("_", " ")


def test_times_are_those_of_columns_in_the_language() -> None:
    with override("de"):
        assert minute_text(EVENING) == "05.10.2026 18:30"
        assert hours_text(NOON, EVENING) == "05.10.2026 12:00 bis 05.10.2026 18:30"
        assert hours_text(NOON, None) == "seit 05.10.2026 12:00"
    with override("en"):
        assert minute_text(EVENING) == "2026-10-05 18:30"
        assert hours_text(NOON, EVENING) == "2026-10-05 12:00 to 2026-10-05 18:30"
        assert hours_text(NOON, None) == "since 2026-10-05 12:00"
    assert minute_text(None) == "\N{EN DASH}"


@pytest.mark.parametrize(
    "capability", sorted({one for held in CAPABILITIES.values() for one in held})
)
def test_every_holder_of_a_capability_has_german(capability: str) -> None:
    holders = holders_of(capability)

    assert set(holders) <= set(ROLES)
    with override("en"):
        assert who_may_text(capability) == who_may(capability)
    with override("de"):
        assert not any(role in who_may_text(capability) for role in holders)


def test_roles_are_named_one_after_another() -> None:
    with override("de"):
        assert who_may_text(WRITE_INVOICE) == "ein Finanz-Administrator"
        assert who_may_text(READ_INVOICE) == (
            "ein Plattform-Administrator, ein Finanz-Administrator, ein Prüfer oder "
            "ein Administrator der Organisation"
        )
        assert who_may_text(WRITE_PRICE, reach={RoleScope.PROJECT}) == "niemand"


def test_a_sentence_of_a_service_is_marked_on_a_page_in_another_language() -> None:
    with override("de"):
        marked = english("A <b> is refused.")
        assert marked == '<span lang="en">A &lt;b&gt; is refused.</span>'
        assert isinstance(marked, SafeString)
    with override("en"):
        assert english("A <b> is refused.") == "A <b> is refused."
        assert not isinstance(english("A <b> is refused."), SafeString)


def test_templates_have_both_filters() -> None:
    template = Template("{% load texts %}{{ amount|figure }} {{ state|value_text }}")

    with override("de"):
        shown = template.render(Context({"amount": "1,000.00", "state": "part_paid"}))

    assert shown == "1.000,00 teilweise bezahlt"
