"""Fields of input that quotas share: whole numbers, sizes, and names of model groups."""

from collections.abc import Callable
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from metering.domain.catalogue.units import GPUSize
from quotas.domain.limits.input import (
    LIMIT_UNITS_MAX,
    OVERCOMMIT_PERCENT_MAX,
    OVERCOMMIT_PERCENT_MIN,
    UNIT_HOURS_MAX,
    grant_units_problems,
    overcommit_problems,
    unit_hours_problems,
    units_problems,
)
from quotas.domain.limits.selectors import MODEL_GROUP_LENGTH_MAX, model_group_problems
from tenants.domain.errors import FieldProblem

Check = Callable[..., tuple[FieldProblem, ...]]


class CheckedField(serializers.Field[Any, Any, Any, Any]):
    """A JSON value that the domain checks as it came: not a string for a number, not 8.0."""

    check: ClassVar[Check]

    def to_internal_value(self, data: Any) -> Any:  # noqa: ANN401 - DRF's signature.
        """Return the value.

        Raises:
            ValidationError: The domain refuses it.
        """
        for problem in type(self).check(data, field=self.field_name or ""):
            raise serializers.ValidationError(problem.message, code=problem.code)
        return data

    def to_representation(self, value: Any) -> Any:  # noqa: ANN401 - As above.
        """Return the value as it is."""
        return value


@extend_schema_field({"type": "integer", "minimum": 0, "maximum": LIMIT_UNITS_MAX})
class WholeUnitsField(CheckedField):
    """A number of units; zero is one."""

    check = staticmethod(units_problems)


@extend_schema_field({"type": "integer", "minimum": 0, "maximum": LIMIT_UNITS_MAX})
class LimitUnitsField(WholeUnitsField):
    """A limit's units, which are required: null is unlimited."""

    def __init__(self, **kwargs: Any) -> None:  # noqa: ANN401 - DRF's signature.
        """Name the remedy in the refusal."""
        super().__init__(allow_null=True, **kwargs)
        self.error_messages["required"] = (
            "Send a whole number of units, or null for no limit at this level."
        )


@extend_schema_field({"type": "integer", "minimum": -LIMIT_UNITS_MAX, "maximum": LIMIT_UNITS_MAX})
class GrantUnitsField(CheckedField):
    """A grant's units: signed, and never zero."""

    check = staticmethod(grant_units_problems)


@extend_schema_field(
    {"type": "integer", "minimum": OVERCOMMIT_PERCENT_MIN, "maximum": OVERCOMMIT_PERCENT_MAX}
)
class OvercommitField(CheckedField):
    """How much of a limit may be promised to the level below."""

    check = staticmethod(overcommit_problems)


@extend_schema_field({"type": "integer", "minimum": 1, "maximum": UNIT_HOURS_MAX})
class UnitHoursField(CheckedField):
    """A month's allowance of unit-hours."""

    check = staticmethod(unit_hours_problems)


@extend_schema_field({"type": "string", "maxLength": MODEL_GROUP_LENGTH_MAX})
class ModelGroupField(CheckedField):
    """The name of a GPU model; "" for every model."""

    check = staticmethod(model_group_problems)


class SizeField(serializers.ChoiceField):
    """One of the three sizes."""

    def __init__(self, **kwargs: Any) -> None:  # noqa: ANN401 - DRF's signature.
        """Name the known sizes in the refusal."""
        sizes = [size.value for size in GPUSize]
        super().__init__(choices=[(size, size.capitalize()) for size in sizes], **kwargs)
        self.error_messages["invalid_choice"] = f"Use one of: {', '.join(sizes)}."
