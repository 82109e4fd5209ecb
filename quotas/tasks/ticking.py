"""The actor of the tasks."""

from typing import Final

from tenants.domain.actors import system_actor

ACTOR: Final = system_actor("quotas.tick")
