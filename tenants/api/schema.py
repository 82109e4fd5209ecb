"""How every operation is described: problem answers and the headers that steer writes."""

from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import Direction, OpenApiParameter, OpenApiResponse
from rest_framework.serializers import ChoiceField, EmailField

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

    def _map_serializer_field(
        self,
        field: Any,  # noqa: ANN401 - Any field of DRF's, or a serializer.
        direction: Direction,
        bypass_extensions: bool = False,  # noqa: FBT001, FBT002 - The base's signature.
    ) -> Any:  # noqa: ANN401 - The base's signature.
        """Return the schema of a field; one that may be empty says so beside choices and formats.

        DRF drops this from a field that is only read, though its column may hold an empty text.
        """
        if not _may_be_empty(field):
            return super()._map_serializer_field(field, direction, bypass_extensions)  # type: ignore[no-untyped-call]
        field.allow_blank = True
        schema = super()._map_serializer_field(field, direction, bypass_extensions)  # type: ignore[no-untyped-call]
        if isinstance(field, EmailField) and "format" in schema:
            schema["anyOf"] = [{"format": schema.pop("format")}, {"maxLength": 0}]
        return schema

    def _handler(self) -> object:
        name = getattr(self.view, "action", None) or self.method.lower()
        return getattr(self.view, name, None)


def _may_be_empty(field: object) -> bool:
    """Whether a text that is written or read may be "", by the field or by its model's column."""
    if not isinstance(field, ChoiceField | EmailField):
        return False
    model = getattr(getattr(field.parent, "Meta", None), "model", None)
    columns = {} if model is None else {one.name: one for one in model._meta.fields}  # noqa: SLF001
    is_blank = getattr(columns.get(str(field.source)), "blank", False)
    return bool(field.allow_blank or (field.read_only and is_blank))


def _header(name: str, *, is_required: bool, description: str) -> OpenApiParameter:
    return OpenApiParameter(
        name,
        str,
        location=OpenApiParameter.HEADER,
        required=is_required,
        description=description,
    )
