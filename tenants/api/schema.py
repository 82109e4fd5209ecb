"""How every operation is described: problem answers and the headers that steer writes."""

from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import Direction, OpenApiParameter, OpenApiResponse

from tenants.api import conditional, idempotency
from tenants.api.problems import PROBLEM_TYPE, ProblemSerializer

_PROBLEM = OpenApiResponse(ProblemSerializer, description="What was refused, why, and the remedy.")


class LedgerSchema(AutoSchema):
    """The description of one operation, with what the shared plumbing adds to it."""

    def get_override_parameters(self) -> list[Any]:
        """Return the headers that the handler's decorators read."""
        handler = self._handler()
        parameters = list(super().get_override_parameters())
        is_required = getattr(handler, "idempotency_key_is_required", None)
        if is_required is not None:
            parameters.append(
                _header(
                    idempotency.HEADER,
                    is_required=is_required,
                    description="New for each intent; sending it again changes nothing.",
                )
            )
        if getattr(handler, "requires_if_match", False):
            parameters.append(
                _header(
                    conditional.HEADER,
                    is_required=True,
                    description='The ETag of what is changed, such as `"3"`.',
                )
            )
        return parameters

    def _get_response_bodies(self, direction: Direction = "response") -> dict[str, Any]:
        """Return the answers of a handler and, for every refusal, the problem document."""
        bodies: dict[str, Any] = super()._get_response_bodies(direction=direction)
        if direction == "response":
            bodies["default"] = self._get_response_for_code(  # type: ignore[no-untyped-call]
                _PROBLEM, "default", [PROBLEM_TYPE]
            )
        return bodies

    def _handler(self) -> object:
        name = getattr(self.view, "action", None) or self.method.lower()
        return getattr(self.view, name, None)


def _header(name: str, *, is_required: bool, description: str) -> OpenApiParameter:
    return OpenApiParameter(
        name,
        str,
        location=OpenApiParameter.HEADER,
        required=is_required,
        description=description,
    )
