"""Filters of lists: declared parameters only, and none that reveals whether an id exists.

Relations are filtered by `UUIDFilter` on the id: a choice among rows would answer differently for
an id of a foreign organization and for one that does not exist.
"""

from typing import Any

from django import forms
from django_filters import rest_framework as filters
from rest_framework.exceptions import ErrorDetail, ValidationError

from tenants.api.serializers import one_of

PAGE_PARAMETERS = frozenset({"cursor", "page_size", "format", "ordering", "expand"})


class StrictFilterSet(filters.FilterSet):
    """Filters that refuse an unknown query parameter: a typing error must not widen a list."""

    def is_valid(self) -> bool:
        """Whether every parameter can be used.

        Raises:
            ValidationError: A parameter is not known.
        """
        unknown = sorted(set(self.data) - set(self.filters) - PAGE_PARAMETERS)
        if unknown:
            detail: dict[str, Any] = {
                name: [ErrorDetail("There is no such filter.", code="unknown_filter")]
                for name in unknown
            }
            raise ValidationError(detail)
        for field in self.form.fields.values():
            if isinstance(field, forms.ChoiceField):
                choices: Any = field.choices
                known = (value for value, _ in choices if value)
                field.error_messages["invalid_choice"] = one_of(known)
        return bool(super().is_valid())
