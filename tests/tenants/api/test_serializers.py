"""What is no choice is reported the choices, in every body alike."""

from typing import Any

import pytest
from rest_framework import serializers

from tenants.api.serializers import StrictSerializer


class Inner(StrictSerializer):
    level = serializers.ChoiceField(choices=["low", "high"])


class Body(StrictSerializer):
    mode = serializers.ChoiceField(choices=[("off", "Nothing"), ("on", "All")], required=False)
    kinds = serializers.ListField(
        child=serializers.ChoiceField(choices=["training", "inference"]), required=False
    )
    pick = serializers.MultipleChoiceField(choices=["a", "b"], required=False)
    inner = Inner(required=False)
    rows = Inner(many=True, required=False)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"mode": "auto"}, "Use one of: off, on."),
        ({"kinds": ["play"]}, "Use one of: training, inference."),
        ({"pick": ["c"]}, "Use one of: a, b."),
        ({"inner": {"level": "mid"}}, "Use one of: low, high."),
        ({"rows": [{"level": "mid"}]}, "Use one of: low, high."),
    ],
)
def test_every_choice_names_its_choices(body: dict[str, Any], message: str) -> None:
    serializer = Body(data=body)

    assert not serializer.is_valid()
    assert message in str(serializer.errors)
    assert "not a valid choice" not in str(serializer.errors)


def test_what_is_a_choice_is_taken() -> None:
    serializer = Body(data={"mode": "on", "kinds": ["training"]})

    assert serializer.is_valid()
    assert serializer.validated_data == {"mode": "on", "kinds": ["training"]}
