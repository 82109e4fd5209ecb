"""A client for each caller, signed in by a real API token, and what refusals look like."""

import json
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.http import HttpResponse
from django.utils import timezone
from rest_framework.test import APIClient

from tenants.domain.actors import system_actor
from tenants.models import ServiceAccount
from tenants.services.identity.tokens import issue_token


def api_client(
    holder: User | ServiceAccount | None = None, *, scopes: tuple[str, ...] = ()
) -> APIClient:
    """Return a client that calls as a holder, or as nobody."""
    client = APIClient()
    if holder is None:
        return client
    at = timezone.now()
    kind = {"user": holder} if isinstance(holder, User) else {"service_account": holder}
    issued = issue_token(
        name="test",
        expires_at=at + timedelta(days=30),
        scopes=scopes,
        actor=system_actor("tests"),
        at=at,
        **kind,
    )
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {issued.text}")
    return client


def problem(response: HttpResponse) -> tuple[int, str]:
    """Return status and code of a problem document, after checking its form."""
    body: dict[str, Any] = json.loads(response.content)
    assert response["Content-Type"] == "application/problem+json"
    assert body["status"] == response.status_code
    assert body["type"] == f"urn:gpu-ledger:problem:{body['code']}"
    assert body["detail"]
    return response.status_code, body["code"]
