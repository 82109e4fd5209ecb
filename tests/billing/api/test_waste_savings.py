"""Waste in money over REST: who sees it, and in which order."""

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from metering.models import WasteFinding
from tests.support.billing.wasteful import make_wasteful_cast
from tests.support.cast import Cast
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


@shared_rows
def cast() -> Cast:
    """Acme wastes one H100 and eight, Umbrella one; a whole one costs 3.60."""
    return make_wasteful_cast()


def names(user: User, query: str = "") -> list[str]:
    client = APIClient()
    client.force_login(user)
    answer = client.get(f"/api/v1/waste-savings/{query}")
    assert answer.status_code == 200, answer.content
    return [row["pod_name"] for row in answer.json()["results"]]


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("carol", []),
        ("bob", ["trainer-0"]),
        ("alice", ["sleeper-0", "trainer-0"]),
        ("mallory", ["hive-0"]),
        ("dora", ["sleeper-0", "hive-0", "trainer-0"]),
        ("ann", ["sleeper-0", "hive-0", "trainer-0"]),
        ("frank", ["sleeper-0", "hive-0", "trainer-0"]),
    ],
)
def test_money_is_seen_by_those_who_see_charges_most_first(
    cast: Cast, name: str, seen: list[str]
) -> None:
    assert names(getattr(cast, name)) == seen


def test_money_is_text_with_its_currency(cast: Cast) -> None:
    client = APIClient()
    client.force_login(cast.bob)

    (row,) = client.get("/api/v1/waste-savings/?state=open&rule=idle").json()["results"]

    assert row["monthly_saving"] == {"amount": "2628.00", "currency": "EUR"}
    assert row["lost"] == {"amount": "3.60", "currency": "EUR"}
    assert row["finding"] == WasteFinding.objects.get(pod_name="trainer-0").pk


def test_pages_go_on_in_order_where_no_price_is(cast: Cast) -> None:
    WasteFinding.objects.filter(pod_name="hive-0").update(size="medium")
    client = APIClient()
    client.force_login(cast.dora)

    first = client.get("/api/v1/waste-savings/?page_size=2").json()
    second = client.get(first["next"]).json()

    assert [row["pod_name"] for row in first["results"]] == ["sleeper-0", "trainer-0"]
    assert [row["pod_name"] for row in second["results"]] == ["hive-0"]
    assert second["results"][0]["monthly_saving"] is None


def test_a_list_is_narrowed(cast: Cast) -> None:
    assert names(cast.dora, f"?organization={cast.umbrella.pk}") == ["hive-0"]
    assert names(cast.dora, "?state=closed") == []


def test_what_nobody_can_say_is_null_and_not_zero(cast: Cast) -> None:
    kept = {"suggested_units": 1, "suggested_size": "large", "wasted_unit_seconds": 0}
    findings = WasteFinding.objects.filter(pod_name="trainer-0")
    findings.update(**kept, suggested_price_group="H100/whole", suggested_unit_seconds=3600)
    client = APIClient()
    client.force_login(cast.bob)

    (unknown,) = client.get("/api/v1/waste-savings/").json()["results"]
    findings.update(memory_peak_mebibytes=70_000)
    (nothing,) = client.get("/api/v1/waste-savings/").json()["results"]

    for name in ("wasted_unit_seconds", "lost", "monthly_saving"):
        assert unknown[name] is None, name
    assert nothing["wasted_unit_seconds"] == 0
    assert nothing["lost"] == nothing["monthly_saving"] == {"amount": "0.00", "currency": "EUR"}
