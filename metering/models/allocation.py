"""Pod allocations: what each pod held, one row per cluster, pod uid and resource."""

from django.contrib.postgres.indexes import OpClass
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Upper

from metering.domain.allocations.timeline import EndKind
from tenants.models import Cluster, Project

SOURCE_CHOICES = [("kubernetes", "Kubernetes"), ("prometheus", "Prometheus")]
END_KIND_CHOICES = [(kind.value, kind.value.replace("_", " ").capitalize()) for kind in EndKind]


class NodeLabelSet(models.Model):
    """Labels of nodes that sizes are settled from, each set once; `metering_label_set` adds them.

    Raw labels of what a pod held: those of its node at bind, or the attributes of its devices.
    """

    id = models.AutoField(primary_key=True)
    digest = models.BinaryField(unique=True)
    """SHA-256 of the labels as PostgreSQL spells them."""
    labels = models.JSONField()

    def __str__(self) -> str:
        """Return the model of the GPU that the labels name."""
        return str(self.labels.get("nvidia.com/gpu.product", "")) or f"labels {self.pk}"


class PodAllocation(models.Model):
    """The allocation ledger. What is stored at the first observation is never derived again.

    `units` is the effective request; `size` and its weight were settled by `catalogue_version`
    from the node's labels at bind. One unit is `share_numerator/share_denominator` of a device.
    While `size` is "" no rule knew the device: it is settled once, from the labels kept here, by
    the first catalogue version that does. A device claim has a row of its own: its `pod_uid` is
    the claim's uid, its `pod_name` the claim's name, its resource `claim/<device class>`.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="allocations")
    pod_uid = models.CharField(max_length=64)
    resource = models.CharField(max_length=128)
    namespace = models.CharField(max_length=63)
    pod_name = models.CharField(max_length=253)
    node = models.CharField(max_length=253)
    owner = models.CharField(max_length=150, blank=True, default="")
    """User named by the pod's label; a namespace's default owner is on the usage record only."""
    priority_class = models.CharField(max_length=253, blank=True, default="")
    priority = models.IntegerField(null=True, blank=True)
    controller = models.CharField(max_length=320, blank=True, default="", db_default="")
    """The controlling owner as "Kind/name"; "" without one or when the source does not know."""
    source = models.CharField(
        max_length=16, choices=SOURCE_CHOICES, default="prometheus", db_default="prometheus"
    )
    """The source that observed it first, which gave begin and snapshot."""
    project = models.ForeignKey(
        Project, on_delete=models.PROTECT, related_name="+", null=True, blank=True
    )
    """The namespace's project at bind; a record's project is that of its own hour."""
    units = models.PositiveIntegerField()
    size = models.CharField(max_length=16, blank=True, default="")
    price_group = models.CharField(max_length=96, blank=True, default="")
    sharing_mode = models.CharField(max_length=16, blank=True, default="")
    product = models.CharField(max_length=128, blank=True, default="")
    share_numerator = models.PositiveIntegerField(default=1)
    share_denominator = models.PositiveIntegerField(default=1)
    catalogue_version = models.PositiveIntegerField(null=True, blank=True)
    label_set = models.ForeignKey(
        NodeLabelSet,
        on_delete=models.PROTECT,
        related_name="+",
        null=True,
        blank=True,
        db_constraint=False,
        db_index=False,
    )
    """The labels of its node at bind; None while none are known."""
    begin_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, blank=True)
    """When its first container ran; None when none did or the source does not know."""
    end_at = models.DateTimeField(null=True, blank=True)
    end_slack_seconds = models.PositiveIntegerField(default=0, db_default=0)
    """How far after `end_at` the true end may lie; 0 when exact."""
    end_kind = models.CharField(max_length=16, choices=END_KIND_CHOICES, default=EndKind.OPEN.value)
    last_seen_at = models.DateTimeField()

    class Meta:
        ordering = ["-begin_at", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "pod_uid", "resource"], name="allocation_unique"
            ),
            models.CheckConstraint(
                condition=Q(end_at__isnull=True) | Q(end_at__gte=F("begin_at")),
                name="allocation_ends_after_it_begins",
            ),
            models.CheckConstraint(condition=Q(units__gte=1), name="allocation_units_positive"),
            models.CheckConstraint(
                condition=Q(share_numerator__gte=1, share_denominator__gte=F("share_numerator")),
                name="allocation_share_is_a_fraction",
            ),
            models.CheckConstraint(
                condition=Q(size="") | Q(catalogue_version__isnull=False),
                name="allocation_size_has_its_catalogue",
            ),
        ]
        indexes = [
            models.Index(
                fields=["cluster", "namespace"],
                condition=Q(end_at__isnull=True),
                name="allocation_open",
            ),
            models.Index(fields=["cluster"], condition=Q(size=""), name="allocation_unsized"),
            models.Index(fields=["cluster", "end_at"], name="allocation_by_end"),
            models.Index(
                fields=["begin_at"],
                condition=Q(sharing_mode__in=["time-slicing", "mps"]),
                name="allocation_shared",
            ),
            models.Index(
                OpClass(Upper("pod_name"), name="text_pattern_ops"), name="allocation_by_name"
            ),
            models.Index(
                OpClass(Upper("pod_uid"), name="text_pattern_ops"), name="allocation_by_uid"
            ),
        ]

    def __str__(self) -> str:
        """Return the pod and what it held."""
        return f"{self.namespace}/{self.pod_name}: {self.units} x {self.resource}"

    @property
    def node_labels(self) -> dict[str, str]:
        """Return the labels of its node at bind; {} while none are known."""
        return dict(self.label_set.labels) if self.label_set else {}
