"""Quota requests over REST: input and output."""

from typing import Any

from rest_framework import serializers

from quotas.access import is_cost_visible
from quotas.api.fields import ModelGroupField, SizeField, WholeUnitsField
from quotas.domain.limits.input import JUSTIFICATION_LENGTH_MAX, NOTE_LENGTH_MAX
from quotas.models import QuotaRequest, RequestComment, RequestStep
from tenants.api.serializers import StrictSerializer
from tenants.domain.actors import Actor

TOTAL = "The wanted total, never the difference."
COST_HELP = "Null to those who may not read the project's prices."
BULK_BODY_MAX = 1_000
"""Far above what is accepted, so that the domain's error names a value that is too long."""


class CostSerializer(serializers.Serializer[dict[str, object]]):
    """What the requested total would cost in a month; null where unknown, never 0."""

    currency = serializers.CharField(read_only=True, default="")
    at_full_use = serializers.CharField(read_only=True, allow_null=True, default=None)
    at_last_use = serializers.CharField(read_only=True, allow_null=True, default=None)
    price_group = serializers.CharField(read_only=True, default="")
    note = serializers.CharField(read_only=True, default="")


class RequestStepSerializer(serializers.ModelSerializer[RequestStep]):
    """One level that decides, in order."""

    decided_by = serializers.SerializerMethodField()

    class Meta:
        model = RequestStep
        fields = (
            "position",
            "level",
            "outcome",
            "is_raised",
            "escalates_at",
            "decided_by",
            "decided_at",
            "note",
        )
        read_only_fields = fields

    def get_decided_by(self, step: RequestStep) -> str | None:
        """Return the decider; None while undecided."""
        return None if step.decided_by is None else step.decided_by.username


class QuotaCommentSerializer(serializers.ModelSerializer[RequestComment]):
    """A comment."""

    author = serializers.CharField(source="author.username", read_only=True)

    class Meta:
        model = RequestComment
        fields = ("id", "author", "text", "created_at")
        read_only_fields = fields


class QuotaRequestSerializer(serializers.ModelSerializer[QuotaRequest]):
    """A request, its deciders and its outcome. `requested_units` is the requested total.

    `units_before` and `burst_before` are what held without it when it was asked, null when unset;
    `is_unlimited_before` marks a null that means unlimited. `peak_units` is the most
    that it comes to at any instant of its time, with the grants that lie on top.
    """

    organization = serializers.UUIDField(source="organization_id", read_only=True)
    project = serializers.UUIDField(source="project_id", read_only=True)
    user = serializers.SerializerMethodField()
    cluster = serializers.SerializerMethodField()
    renews = serializers.UUIDField(source="renews_id", read_only=True, allow_null=True)
    supersedes = serializers.UUIDField(source="supersedes_id", read_only=True, allow_null=True)
    requested_by = serializers.CharField(source="requested_by.username", read_only=True)
    decided_by = serializers.SerializerMethodField()
    cost = CostSerializer(read_only=True, allow_null=True, help_text=COST_HELP)
    steps = RequestStepSerializer(many=True, read_only=True)
    comments = QuotaCommentSerializer(many=True, read_only=True)

    class Meta:
        model = QuotaRequest
        fields = (
            "id",
            "organization",
            "project",
            "user",
            "size",
            "model_group",
            "cluster",
            "requested_units",
            "burst_units",
            "begin_at",
            "end_at",
            "units_before",
            "burst_before",
            "is_unlimited_before",
            "peak_units",
            "justification",
            "renews",
            "supersedes",
            "cost",
            "state",
            "expires_at",
            "requested_by",
            "decided_by",
            "decided_at",
            "decision_note",
            "is_automatic",
            "steps",
            "comments",
            "version",
            "created_at",
        )
        read_only_fields = fields

    def to_representation(self, instance: QuotaRequest) -> dict[str, Any]:
        """Return it, without the cost where the caller may not read the project's prices."""
        represented = super().to_representation(instance)
        actor: Actor = self.context["actor"]
        shows_cost = is_cost_visible(
            actor, organization_id=instance.organization_id, project_id=instance.project_id
        )
        return represented if shows_cost else {**represented, "cost": None}

    def get_user(self, request: QuotaRequest) -> str | None:
        """Return the user it is for; None for the whole project."""
        return None if request.user is None else request.user.username

    def get_cluster(self, request: QuotaRequest) -> str | None:
        """Return the slug of the cluster; None for every one."""
        return None if request.cluster is None else request.cluster.slug

    def get_decided_by(self, request: QuotaRequest) -> str | None:
        """Return the decider; None while undecided, and where the policy decided."""
        return None if request.decided_by is None else request.decided_by.username


class QuotaPreviewInputSerializer(StrictSerializer):
    """What would be asked for."""

    project = serializers.UUIDField()
    user = serializers.CharField(
        max_length=150, required=False, help_text="The user in the project it is for."
    )
    size = SizeField()
    model_group = ModelGroupField(required=False, default="")
    cluster = serializers.CharField(max_length=63, required=False, help_text="Its slug.")
    requested_units = WholeUnitsField(help_text=TOTAL)
    burst_units = WholeUnitsField(required=False, allow_null=True, default=None)
    begin_at = serializers.DateTimeField(required=False, allow_null=True, default=None)
    end_at = serializers.DateTimeField(required=False, allow_null=True, default=None)
    justification = serializers.CharField(
        max_length=JUSTIFICATION_LENGTH_MAX, required=False, default="(preview)"
    )


class QuotaRequestInputSerializer(QuotaPreviewInputSerializer):
    """What is asked for, and why."""

    supersedes = serializers.UUIDField(required=False, allow_null=True, default=None)
    justification = serializers.CharField(max_length=JUSTIFICATION_LENGTH_MAX)


class QuotaBulkInputSerializer(StrictSerializer):
    """Several requests, of which all are made or none."""

    requests = serializers.ListField(child=QuotaRequestInputSerializer(), max_length=BULK_BODY_MAX)


class QuotaRenewalSerializer(StrictSerializer):
    """For how much longer, and why."""

    renews = serializers.UUIDField(help_text="The request that was approved until a time.")
    end_at = serializers.DateTimeField(allow_null=True)
    requested_units = WholeUnitsField(
        required=False, allow_null=True, default=None, help_text=f"{TOTAL} Null is as before."
    )
    justification = serializers.CharField(max_length=JUSTIFICATION_LENGTH_MAX)


class QuotaDecisionSerializer(StrictSerializer):
    """The note of a decision."""

    note = serializers.CharField(
        max_length=NOTE_LENGTH_MAX, allow_blank=True, required=False, default=""
    )


class QuotaCommentInputSerializer(StrictSerializer):
    """A new comment."""

    text = serializers.CharField(max_length=NOTE_LENGTH_MAX)


class PreviewProblemSerializer(serializers.Serializer[object]):
    """One reason against a request."""

    field = serializers.CharField(read_only=True)
    code = serializers.CharField(read_only=True)
    message = serializers.CharField(read_only=True)


class PreviewSerializer(serializers.Serializer[object]):
    """What a request would mean; nothing was written."""

    units_before = serializers.IntegerField(read_only=True, allow_null=True)
    burst_before = serializers.IntegerField(read_only=True, allow_null=True)
    is_unlimited_before = serializers.BooleanField(read_only=True)
    peak_units = serializers.IntegerField(
        read_only=True,
        allow_null=True,
        help_text="The most it would come to at any instant of its time, other grants included.",
    )
    cost = CostSerializer(read_only=True, allow_null=True, help_text=COST_HELP)
    decided_by = serializers.ListField(
        source="levels",
        child=serializers.CharField(),
        read_only=True,
        help_text="Levels in their order; none where the policy approves it itself.",
    )
    problems = PreviewProblemSerializer(many=True, read_only=True)

    def to_representation(self, instance: object) -> dict[str, Any]:
        """Return it, without the cost where the caller may not read the project's prices."""
        represented = super().to_representation(instance)
        return represented if self.context["is_cost_visible"] else {**represented, "cost": None}
