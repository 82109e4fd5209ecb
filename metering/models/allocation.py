"""Pod allocations: what each pod held, one row per cluster, pod uid and resource."""

from django.db import models
from django.db.models import F, Q

from metering.domain.timeline import EndKind
from tenants.models import Cluster

END_KIND_CHOICES = [(kind.value, kind.value.replace("_", " ").capitalize()) for kind in EndKind]


class PodAllocation(models.Model):
    """The allocation ledger. What stands here from the first sight on is never derived again.

    `units` is the effective request; `size` and its weight were settled by `catalogue_version`
    from the node's labels at bind. One unit is `share_numerator/share_denominator` of a device.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="allocations")
    pod_uid = models.CharField(max_length=64)
    resource = models.CharField(max_length=128)
    namespace = models.CharField(max_length=63)
    pod_name = models.CharField(max_length=253)
    node = models.CharField(max_length=253)
    owner = models.CharField(max_length=150, blank=True, default="")
    """Whom the pod's label names; a namespace's default owner belongs to the record instead."""
    priority_class = models.CharField(max_length=253, blank=True, default="")
    units = models.PositiveIntegerField()
    size = models.CharField(max_length=16)
    price_group = models.CharField(max_length=96)
    sharing_mode = models.CharField(max_length=16)
    product = models.CharField(max_length=128, blank=True, default="")
    share_numerator = models.PositiveIntegerField()
    share_denominator = models.PositiveIntegerField()
    catalogue_version = models.PositiveIntegerField()
    node_labels = models.JSONField(default=dict)
    begin_at = models.DateTimeField()
    end_at = models.DateTimeField(null=True, blank=True)
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
        ]
        indexes = [
            models.Index(
                fields=["cluster", "namespace"],
                condition=Q(end_at__isnull=True),
                name="allocation_open",
            ),
        ]

    def __str__(self) -> str:
        """Return the pod and what it held."""
        return f"{self.namespace}/{self.pod_name}: {self.units} x {self.resource}"
