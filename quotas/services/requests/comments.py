"""Comments on a request; readable by every reader of the request."""

from datetime import datetime
from uuid import UUID

from django.db import transaction

from quotas.domain.limits.input import NOTE_LENGTH_MAX, refuse_problems, text_problems
from quotas.models import QuotaRequest, RequestComment
from quotas.selectors.locks import lock_request
from quotas.services.requests.asking import SUBMIT
from quotas.services.requests.news import tell_comment
from quotas.services.requests.steps import DECIDE, FUND, REVIEW
from quotas.services.requests.trail import person_of, record_request
from tenants.access import require_capability
from tenants.domain.actors import Actor
from tenants.domain.errors import NotFoundError


@transaction.atomic
def comment_request(*, request_id: UUID, text: str, actor: Actor, at: datetime) -> RequestComment:
    """Add a comment to a request; open to actors who may request for the project or decide.

    Raises:
        NotFoundError: There is no such request.
        QuotaInputError: The text is empty or cannot be kept.
        ForbiddenError: The actor may neither request nor decide.
        PersonRequiredError: The actor is not a person.
    """
    refuse_problems(text_problems(text, field="text", length_max=NOTE_LENGTH_MAX))
    request = lock_request(request_id)
    if request is None:
        raise NotFoundError("There is no such quota request.")
    if not may_comment(request, actor=actor):
        require_capability(actor, SUBMIT, **_place(request))
    comment = RequestComment.objects.create(
        request=request, author_id=person_of(actor=actor), text=text, created_at=at
    )
    record_request(request, "comment", actor=actor, at=at)
    tell_comment(request, author=comment.author.username, text=text, at=at)
    return comment


def may_comment(request: QuotaRequest, *, actor: Actor) -> bool:
    """Whether an actor may request for the project, or decides there at some level."""
    place = _place(request)
    return any(actor.may(held, **place) for held in (REVIEW, DECIDE, FUND, SUBMIT))


def _place(request: QuotaRequest) -> dict[str, UUID]:
    return {"organization_id": request.organization_id, "project_id": request.project_id}
