"""What a write asks of its actor, whichever door it came through."""

from uuid import UUID

from tenants.domain.actors import Actor
from tenants.domain.errors import ForbiddenError


def require_capability(
    actor: Actor,
    capability: str,
    *,
    organization_id: UUID | None = None,
    project_id: UUID | None = None,
) -> None:
    """Refuse an actor who does not hold a capability over an object.

    Raises:
        ForbiddenError: The actor's roles, or the scopes of its token, do not cover it.
    """
    if not actor.may(capability, organization_id=organization_id, project_id=project_id):
        raise ForbiddenError(
            f"Your roles do not include {capability} here.", facts={"capability": capability}
        )
