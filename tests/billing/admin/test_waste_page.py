"""The page "Waste": most money first, quota that nobody uses, and who opens it."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from metering.models import WasteFinding
from quotas.models import QuotaLimit
from tests.support.billing.wasteful import make_wasteful_cast
from tests.support.builders import AT
from tests.support.cast import Cast
from tests.support.quotas.builders import make_limit
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


@shared_rows
def cast() -> Cast:
    """Acme wastes one H100 and eight, Umbrella one; a whole one costs 3.60."""
    return make_wasteful_cast()


def page(user: User) -> tuple[int, str]:
    client = Client()
    client.force_login(user)
    answer = client.get(reverse("admin:billing_charge_waste"))
    return answer.status_code, answer.content.decode()


def test_the_page_orders_waste_by_money_and_adds_it_up(cast: Cast) -> None:
    status, text = page(cast.dora)

    assert status == 200
    assert text.index("sleeper-0") < text.index("hive-0") < text.index("trainer-0")
    assert "21,024.00 EUR" in text
    assert "26,280.00 EUR" in text
    assert "give it back" in text


def test_the_page_names_quota_that_nobody_uses(cast: Cast) -> None:
    make_limit(cast.acme, units=20)
    make_limit(cast.acme, cast.llm, units=10)
    QuotaLimit.objects.update(changed_at=AT - timedelta(days=365))

    _, text = page(cast.ann)

    assert "Quota that nobody uses" in text
    assert "acme / llm" in text


def test_without_waste_the_page_says_so(cast: Cast) -> None:
    WasteFinding.objects.update(state="closed")

    _, text = page(cast.frank)

    assert "Nothing is wasted, as far as was measured." in text
    assert "No project keeps more quota than it uses." in text


@pytest.mark.parametrize("name", ["alice", "bob", "carol", "mallory"])
def test_a_role_of_one_organization_does_not_open_the_page(cast: Cast, name: str) -> None:
    assert page(getattr(cast, name))[0] == 403


def test_what_nobody_can_say_is_unknown_and_in_no_sum(cast: Cast) -> None:
    kept = {"suggested_units": 1, "suggested_size": "large", "wasted_unit_seconds": 0}
    findings = WasteFinding.objects.filter(pod_name="sleeper-0")
    findings.update(**kept, suggested_price_group="H100/whole")

    _, text = page(cast.dora)

    assert text.index("hive-0") < text.index("trainer-0") < text.index("sleeper-0")
    assert "5,256.00 EUR" in text
    assert text.count("unknown: no memory figure") == 1
    findings.update(memory_peak_mebibytes=70_000)
    assert "nothing smaller would serve" in " ".join(page(cast.dora)[1].split())
    assert "1 of unknown saving: a price is missing, or no memory figures show whether" in text
    assert "0.00 EUR" not in text.replace("5,256.00 EUR", "").replace("2,628.00 EUR", "")


def test_a_loss_below_the_smallest_amount_is_named_as_such(cast: Cast) -> None:
    WasteFinding.objects.update(held_unit_seconds=1, wasted_unit_seconds=1)

    _, text = page(cast.dora)

    assert "lost so far: less than 0.01 EUR" in text
    assert text.count("less than 0.01 EUR") == 4
    assert "lost so far: 0.00" not in text


def test_no_saving_is_promised_where_nothing_smaller_would_serve(cast: Cast) -> None:
    kept = {"units": 1, "suggested_units": 1, "suggested_size": "large", "wasted_unit_seconds": 0}
    WasteFinding.objects.update(
        **kept,
        suggested_price_group="H100/whole",
        held_unit_seconds=3_600,
        suggested_unit_seconds=3_600,
        memory_peak_mebibytes=70_000,
    )

    _, text = page(cast.dora)

    assert "lost so far: nothing" in text
    assert "0.00 EUR" not in text
    assert "less than" not in text


def test_where_all_is_unknown_nothing_is_said_of_prices(cast: Cast) -> None:
    kept = {"suggested_units": 1, "suggested_size": "large", "wasted_unit_seconds": 0}
    WasteFinding.objects.update(**kept, suggested_price_group="H100/whole")

    _, text = page(cast.dora)

    assert "3 of unknown saving" in text
    assert "A month would save" not in text
    assert "without a price" not in text
