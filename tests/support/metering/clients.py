"""Asking metering's endpoints."""

from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import User
from rest_framework.test import APIClient

API = "/api/v1"
RANGE = {
    "window_start_from": "2026-10-05T00:00:00Z",
    "window_start_before": "2026-10-06T00:00:00Z",
}
ClientFor = Callable[[User], APIClient]


def results(client: APIClient, path: str, **query: str) -> list[dict[str, Any]]:
    """Return the first page of a list."""
    answer = client.get(f"{API}/{path}/", query)
    assert answer.status_code == 200, answer.content
    found: list[dict[str, Any]] = answer.json()["results"]
    return found
