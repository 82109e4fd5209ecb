"""What is no choice is reported the choices, in every body alike; rows are shown as DRF does."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID, uuid4

import pytest
from rest_framework import serializers

from tenants.api.audit import AuditEntrySerializer
from tenants.api.serializers import RowSerializer, StrictSerializer
from tenants.models import AuditEntry, Project


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


@pytest.mark.parametrize(
    "occurred_at",
    [
        datetime(2026, 10, 5, 13, tzinfo=UTC),
        datetime(2026, 10, 5, 13, 0, 1, 20, tzinfo=UTC),
        datetime(2026, 10, 5, 15, 30, tzinfo=timezone(timedelta(hours=2, minutes=30))),
    ],
)
@pytest.mark.parametrize("organization_id", [None, uuid4()])
def test_rows_are_shown_as_drf_shows_them(
    occurred_at: datetime, organization_id: UUID | None
) -> None:
    entry = AuditEntry(
        id=7,
        occurred_at=occurred_at,
        actor_kind="person",
        actor_id="1",
        action="tenants:project:create",
        organization_id=organization_id,
        facts={"changed": {"name": [None, "a"]}},
        leaf=b"\x01\xff",
    )
    serializer = AuditEntrySerializer(entry)

    shown = serializer.data

    assert shown == serializers.ModelSerializer.to_representation(serializer, entry)
    assert list(shown) == list(AuditEntrySerializer.Meta.fields)
    assert (shown["id"], shown["leaf"], shown["recorded_at"]) == (7, "01ff", None)


def test_a_field_of_another_row_is_a_mistake() -> None:
    class Related(RowSerializer[Project]):
        class Meta:
            model = Project
            fields = ("id", "organization")

    class Deep(RowSerializer[Project]):
        payer = serializers.CharField(source="organization.slug")

        class Meta:
            model = Project
            fields = ("id", "payer")

    for serializer_class in (Related, Deep):
        with pytest.raises(ValueError, match="is no column of its row"):
            _ = serializer_class(Project()).data
