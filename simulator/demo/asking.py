"""The demo's quota request, sent over REST as a tenant lead would, and approved by another."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User

from quotas.models import EnforcementState, EnforcementTarget, QuotaRequest, RequestState
from quotas.tasks import tick_enforcement
from simulator.demo.plan import QUOTA_REQUEST
from simulator.demo.private_files import write_private
from tenants.domain.actors import system_actor
from tenants.domain.refusals import HolderInactiveError
from tenants.models import ApiToken, Project
from tenants.services.identity.tokens import issue_token
from tenants.services.wakeups import wake

TOKEN_DAYS = 30
REQUEST_TIMEOUT_SECONDS = 120
APPLIED_SECONDS_MAX = 180
POLL_SECONDS = 0.25
TOKENS = "tokens.json"
REMEMBERED = "quota-request.json"
"""Which request is the demo's own: every other one is of a person trying the demo."""
LEFT = "The demo's own quota request is left as it is"


class DemoRefusedError(Exception):
    """Raised when the service refuses the demo's request; the text is the problem document."""

    def __init__(self, url: str, *, status: int, text: str) -> None:
        """Keep the response.

        Args:
            url: The URL of the request.
            status: Of the answer.
            text: Of the answer: a problem document, unless something else answered.
        """
        super().__init__(f"{url}: {status} {text}")
        self.status = status
        self.text = text

    @property
    def sentence(self) -> str:
        """The problem in one sentence."""
        try:
            return str(json.loads(self.text)["detail"])
        except (ValueError, KeyError, TypeError):
            return f"it was answered {self.status}."


Post = Callable[..., dict[str, Any]]
"""Sends one POST: `post(path, token=, key=, body=)`, the path below `/api/v1/`; returns the answer
or raises DemoRefusedError."""


@dataclass(frozen=True)
class Asked:
    """The outcome of the demo's own quota request.

    Attributes:
        project: The project it is for.
        state: Of the request; "refused" when the API did not accept it.
        note: Why it is not approved, in one line; "" when it is.
    """

    project: Project
    state: str
    note: str = ""


def demo_tokens(folder: Path) -> dict[str, str]:
    """Return API tokens of the two people of the request by user name, made at the first start."""
    at = datetime.now(UTC)
    people = (QUOTA_REQUEST.requested_by, QUOTA_REQUEST.approved_by)
    return {username: token_of(folder, username, at=at) for username in people}


def known_tokens(folder: Path) -> dict[str, str]:
    """Return the API tokens that are kept with the demo's files, by user name."""
    path = folder / TOKENS
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def token_of(folder: Path, username: str, *, at: datetime) -> str:
    """Return an API token of a demo person that is kept with the demo's files, or a new one.

    It is "" when that person was deactivated.

    Args:
        folder: Where the demo keeps its files.
        username: The token's holder.
        at: Now; a token that has run out by then is replaced.
    """
    known = known_tokens(folder)
    if username not in known or not _is_valid(known[username], at=at):
        try:
            issued = issue_token(
                name="Demo",
                user=User.objects.get(username=username),
                expires_at=at + timedelta(days=TOKEN_DAYS),
                actor=system_actor("demo.tokens"),
                at=at,
            )
        except HolderInactiveError:
            return ""
        known[username] = issued.text
        write_private(folder / TOKENS, json.dumps(known, indent=2))
    return known[username]


def _is_valid(text: str, *, at: datetime) -> bool:
    prefix = text.split("_")[1]
    return ApiToken.objects.filter(
        prefix=prefix, revoked_at__isnull=True, expires_at__gt=at
    ).exists()


def ask_for_quota(post: Post, tokens: Mapping[str, str], *, folder: Path) -> Asked:
    """Request and approve over REST, once; other requests of the project are left alone.

    A refusal is returned, not raised: people may have changed anything since the last start.

    Args:
        post: Sends one request to the service.
        tokens: By user name.
        folder: Where the demo keeps its files, one of which names its request.

    Raises:
        DemoRefusedError: The service failed.
    """
    plan = QUOTA_REQUEST
    project = Project.objects.get(organization__slug=plan.organization, slug=plan.project)
    try:
        request_id = _ask(post, project, tokens=tokens, folder=folder)
        if _state_of(request_id) == RequestState.SUBMITTED:
            post(
                f"quota-requests/{request_id}/approve/",
                token=tokens[plan.approved_by],
                key=f"demo-approve-{request_id}",
                body={"note": "Agreed with the platform team."},
            )
    except DemoRefusedError as refused:
        if refused.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise
        request_id = _remembered(folder)
        return Asked(project, _state_of(request_id), note=f"{LEFT}: {refused.sentence}")
    state = _state_of(request_id)
    # It was decided before, or the policy requires more approvers.
    note = "" if state == RequestState.APPROVED else f"{LEFT}: it is {state}."
    return Asked(project, state, note=note)


def _ask(post: Post, project: Project, *, tokens: Mapping[str, str], folder: Path) -> str:
    """Return the id of the demo's own request, made at the first start.

    The service deletes idempotency keys after a week, so the demo stores the id itself.
    """
    known = _remembered(folder)
    if known:
        return known
    plan = QUOTA_REQUEST
    asked = post(
        "quota-requests/",
        token=tokens[plan.requested_by],
        key="demo-ask",
        body={
            "project": str(project.pk),
            "size": plan.size,
            "requested_units": plan.requested_units,
            "justification": plan.justification,
        },
    )
    write_private(folder / REMEMBERED, json.dumps({"id": asked["id"]}))
    return str(asked["id"])


def _remembered(folder: Path) -> str:
    path = folder / REMEMBERED
    return str(json.loads(path.read_text(encoding="utf-8"))["id"]) if path.exists() else ""


def _state_of(request_id: str) -> str:
    """Return the state of the demo's request, or "refused" when there is none."""
    found = QuotaRequest.objects.filter(pk=request_id).first() if request_id else None
    return "refused" if found is None else found.state


def await_quota(asked: Asked) -> dict[str, Any]:
    """Wait a while for the workers to apply an approved request; report the result."""
    plan, project = QUOTA_REQUEST, asked.project
    wake(tick_enforcement.name)
    seconds = APPLIED_SECONDS_MAX if asked.state == RequestState.APPROVED else 0
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not _is_applied(project):
        time.sleep(POLL_SECONDS)
    return {
        "project": f"{plan.organization}/{plan.project}",
        "asked": f"{plan.requested_units} {plan.size}",
        "requested_by": plan.requested_by,
        "approved_by": plan.approved_by,
        "state": asked.state,
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


def rest_poster(base_url: str) -> Post:
    """Return what sends requests to the web server at an address."""

    def post(path: str, *, token: str, key: str, body: Mapping[str, Any]) -> dict[str, Any]:
        url = f"{base_url}/api/v1/{path}"
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
            raise DemoRefusedError(url, status=error.code, text=text) from error
        return found

    return post
