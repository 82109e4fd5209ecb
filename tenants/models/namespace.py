"""Namespace bindings: which project a namespace of a cluster belongs to, and when."""

from django.conf import settings
from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import DateTimeRangeField, RangeOperators
from django.db import models

from tenants.domain.identifiers import new_id
from tenants.models.cluster import Cluster
from tenants.models.project import Project


class NamespaceBinding(models.Model):
    """One namespace of one cluster, bound to one project for a range of whole UTC hours.

    The range includes its lower bound and excludes its upper one; an open upper bound means
    "until further notice". Two bindings of a namespace never overlap.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="bindings")
    namespace = models.CharField(max_length=63)
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="bindings")
    default_owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        related_name="+",
        null=True,
        blank=True,
    )
    valid = DateTimeRangeField()
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["cluster__slug", "namespace", "valid"]
        constraints = [
            ExclusionConstraint(
                name="namespace_bindings_do_not_overlap",
                expressions=[
                    ("cluster", RangeOperators.EQUAL),
                    ("namespace", RangeOperators.EQUAL),
                    ("valid", RangeOperators.OVERLAPS),
                ],
                violation_error_message="The namespace is bound to a project at that time.",
            ),
        ]

    def __str__(self) -> str:
        """Return the namespace and its project."""
        return f"{self.cluster.slug}/{self.namespace}"
