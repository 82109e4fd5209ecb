"""Fields of input that quotas share: whole units, and sizes."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from metering.domain.gpu_sizes import GPUSize
from quotas.domain.limit_input import LIMIT_UNITS_MAX, units_problems


@extend_schema_field({"type": "integer", "minimum": 0, "maximum": LIMIT_UNITS_MAX})
class WholeUnitsField(serializers.Field[int, Any, int, Any]):
    """A JSON integer: not a string, not 8.0, not true."""

    def to_internal_value(self, data: Any) -> int:  # noqa: ANN401 - DRF's signature.
        """Return the number of units.

        Raises:
            ValidationError: It can be no limit.
        """
        for problem in units_problems(data, field=self.field_name or ""):
            raise serializers.ValidationError(problem.message, code=problem.code)
        return int(data)

    def to_representation(self, value: int) -> int:
        """Return the number as it is."""
        return value


class SizeField(serializers.ChoiceField):
    """One of the three sizes."""

    def __init__(self, **kwargs: Any) -> None:  # noqa: ANN401 - DRF's signature.
        """Name the known sizes in the refusal."""
        sizes = [size.value for size in GPUSize]
        super().__init__(choices=[(size, size.capitalize()) for size in sizes], **kwargs)
        self.error_messages["invalid_choice"] = f"Use one of: {', '.join(sizes)}."
