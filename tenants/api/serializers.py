"""Base classes of all serializers: strict validation of request bodies.

`StrictSerializer` is for input: an unknown or read-only field is a problem and is
not silently dropped. All problems are returned at once. Output serializers are DRF's own.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail, ValidationError


class StrictSerializer(serializers.Serializer[Any]):
    """Input that refuses unknown fields. It validates; services write."""

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Return the fields; every one that is a choice names its choices when it refuses."""
        fields = super().get_fields()
        for field in fields.values():
            _name_choices(field)
        return fields

    def to_internal_value(self, data: Any) -> Any:  # noqa: ANN401 - DRF's signature.
        """Return the validated fields.

        Raises:
            ValidationError: With the problems of every field, unknown ones included.
        """
        unknown = _unknown_fields(data, known=self.fields)
        try:
            value = super().to_internal_value(data)
        except ValidationError as error:
            if isinstance(error.detail, dict):
                raise ValidationError({**error.detail, **unknown}) from error
            raise
        if unknown:
            raise ValidationError(unknown)
        return value


class EmptySerializer(StrictSerializer):
    """A body that says nothing: `{}` or none at all."""


def _name_choices(field: serializers.Field[Any, Any, Any, Any]) -> None:
    if isinstance(field, serializers.ListField):
        _name_choices(field.child)
    elif isinstance(field, serializers.ChoiceField):
        field.error_messages["invalid_choice"] = one_of(field.choices)


def one_of(choices: Iterable[object]) -> str:
    """Return what to use instead of what is no choice."""
    return f"Use one of: {', '.join(str(choice) for choice in choices)}."


def _unknown_fields(
    data: object, *, known: Mapping[str, serializers.Field[Any, Any, Any, Any]]
) -> dict[str, list[ErrorDetail]]:
    if not isinstance(data, Mapping):
        return {}
    return {
        str(name): [ErrorDetail("This field is not known here.", code="unknown_field")]
        for name in data
        if name not in known or known[name].read_only
    }
