"""The demo's quota request, sent over REST as a tenant lead would, and approved by another."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User

from config.demo.plan import QUOTA_REQUEST, PlannedRequest
from config.demo.private_files import write_private
from quotas.models import EnforcementState, EnforcementTarget, QuotaRequest
from quotas.tasks import tick_enforcement
from tenants.domain.actors import system_actor
from tenants.models import ApiToken, Project
from tenants.services.tokens import issue_token

TOKEN_DAYS = 30
REQUEST_TIMEOUT_SECONDS = 20
APPLIED_SECONDS_MAX = 60
POLL_SECONDS = 0.25


class DemoRefusedError(Exception):
    """Raised when the service refuses what the demo asks; the text is the problem document."""


def demo_tokens(folder: Path) -> dict[str, str]:
    """Return API tokens of the two people of the request by user name, made at the first start."""
    at = datetime.now(UTC)
    people = (QUOTA_REQUEST.requested_by, QUOTA_REQUEST.approved_by)
    return {username: token_of(folder, username, at=at) for username in people}


def token_of(folder: Path, username: str, *, at: datetime) -> str:
    """Return an API token of a demo person that is kept with the demo's files, or a new one.

    Args:
        folder: Where the demo keeps its files.
        username: Whose.
        at: Now; a token that has run out by then is replaced.
    """
    path = folder / "tokens.json"
    known: dict[str, str] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if username not in known or not _is_valid(known[username], at=at):
        issued = issue_token(
            name="Demo",
            user=User.objects.get(username=username),
            expires_at=at + timedelta(days=TOKEN_DAYS),
            actor=system_actor("demo.tokens"),
            at=at,
        )
        known[username] = issued.text
        write_private(path, json.dumps(known, indent=2))
    return known[username]


def _is_valid(text: str, *, at: datetime) -> bool:
    prefix = text.split("_")[1]
    return ApiToken.objects.filter(
        prefix=prefix, revoked_at__isnull=True, expires_at__gt=at
    ).exists()


def ask_for_quota(base_url: str, tokens: Mapping[str, str]) -> dict[str, Any]:
    """Ask and approve over REST, once; return the request and how far the cluster has come.

    Args:
        base_url: Of the web server.
        tokens: By user name.

    Raises:
        DemoRefusedError: The service refused.
    """
    plan = QUOTA_REQUEST
    project = Project.objects.get(organization__slug=plan.organization, slug=plan.project)
    request = QuotaRequest.objects.filter(project=project, requested_by__username=plan.requested_by)
    found = request.first()
    if found is None:
        asked = _post(
            f"{base_url}/api/v1/quota-requests/",
            token=tokens[plan.requested_by],
            key="demo-ask",
            body={
                "project": str(project.pk),
                "size": plan.size,
                "requested_units": plan.requested_units,
                "justification": plan.justification,
            },
        )
        _approve(base_url, str(asked["id"]), tokens=tokens, plan=plan)
    elif found.state == "submitted":
        _approve(base_url, str(found.pk), tokens=tokens, plan=plan)
    return _outcome(project, plan)


def _approve(
    base_url: str, request_id: str, *, tokens: Mapping[str, str], plan: PlannedRequest
) -> None:
    _post(
        f"{base_url}/api/v1/quota-requests/{request_id}/approve/",
        token=tokens[plan.approved_by],
        key="demo-approve",
        body={"note": "Agreed with the platform team."},
    )


def _outcome(project: Project, plan: PlannedRequest) -> dict[str, Any]:
    """Wait a while for the workers to make it true in the cluster, and tell."""
    request = QuotaRequest.objects.filter(project=project).latest("created_at")
    tick_enforcement.apply_async(retry=False, ignore_result=True)
    deadline = time.monotonic() + APPLIED_SECONDS_MAX
    while time.monotonic() < deadline and not _is_applied(project):
        time.sleep(POLL_SECONDS)
    return {
        "project": f"{plan.organization}/{plan.project}",
        "asked": f"{plan.requested_units} {plan.size}",
        "requested_by": plan.requested_by,
        "approved_by": plan.approved_by,
        "state": request.state,
        "is_applied": _is_applied(project),
        "clusters": {
            str(target): target.live_hard
            for target in EnforcementTarget.objects.filter(project=project).select_related(
                "cluster"
            )
        },
    }


def _is_applied(project: Project) -> bool:
    targets = EnforcementTarget.objects.filter(project=project)
    return targets.exists() and not targets.exclude(state=EnforcementState.APPLIED).exists()


def _post(url: str, *, token: str, key: str, body: Mapping[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(  # noqa: S310 - Our own server.
        url,
        data=json.dumps(body).encode(),
        method="POST",
        headers={
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "Idempotency-Key": key,
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=REQUEST_TIMEOUT_SECONDS) as answer:  # noqa: S310 - As above.
            found: dict[str, Any] = json.loads(answer.read())
    except urllib.error.HTTPError as error:
        text = error.read().decode(errors="replace")
        raise DemoRefusedError(f"{url}: {error.code} {text}") from error
    return found
