"""Tests of bodies beyond the limits: problem documents that name the limit."""

import pytest
from django.test import override_settings

from tests.support.cast import Cast
from tests.support.tenants.clients import api_client, problem

PATH = "/api/v1/projects/"
BYTES_MAX = 2_621_440


def nested(levels: int) -> str:
    """Return lists in one another below an object of their own."""
    return f'{{"name": {"[" * (levels - 1)}{"]" * (levels - 1)}}}'


@pytest.mark.parametrize("levels", [34, 900, 100_000])
def test_a_body_nested_too_deep_is_refused_with_the_limit(cast: Cast, levels: int) -> None:
    response = api_client(cast.alice).post(
        PATH, nested(levels), content_type="application/json", HTTP_IDEMPOTENCY_KEY="k"
    )

    assert problem(response) == (400, "body_too_deep")
    assert "32 levels" in response.json()["detail"]


def test_a_body_within_the_depth_is_judged_by_its_fields(cast: Cast) -> None:
    response = api_client(cast.alice).post(PATH, nested(32), content_type="application/json")

    assert problem(response) == (422, "invalid_input")


def test_a_body_that_is_too_big_is_refused_with_the_limit(cast: Cast) -> None:
    response = api_client(cast.alice).post(
        PATH, "x" * (BYTES_MAX + 1), content_type="application/json"
    )

    assert problem(response) == (413, "body_too_large")
    assert str(BYTES_MAX) in response.json()["detail"]


@override_settings(DATA_UPLOAD_MAX_MEMORY_SIZE=30)
def test_a_body_of_exactly_the_limit_is_read(cast: Cast) -> None:
    client = api_client(cast.alice)

    fits = client.post(PATH, b'{"name": "abcdefghijklmnopqr"}', content_type="application/json")
    over = client.post(PATH, b'{"name": "abcdefghijklmnopqrs"}', content_type="application/json")

    assert problem(fits) == (422, "invalid_input")
    assert problem(over) == (413, "body_too_large")
