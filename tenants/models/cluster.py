"""Clusters: where GPUs are, how they are observed, and where their secrets may be sent."""

from django.conf import settings
from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import DateTimeRangeField, RangeOperators
from django.core.validators import MinValueValidator, RegexValidator
from django.db import models

from tenants.domain.identifiers import new_id
from tenants.models.addresses import ServerURLField
from tenants.models.organization import SLUG, LifecycleState, Project

ORIGIN_LENGTH_MAX = 267
"""A scheme, a host of 253 characters and a port."""


class SecretHost(models.Model):
    """A secret and where it is sent, as long as the service knows the secret.

    It outlasts the cluster's reference, so that clearing that and naming it anew changes nothing.
    """

    secret = models.TextField(primary_key=True)
    """A key of `NamedSecret`; never the secret."""
    origin = models.CharField(max_length=ORIGIN_LENGTH_MAX)
    """As of `origin_of`; "" where it is not known, and no URL has that."""
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["secret"]

    def __str__(self) -> str:
        """Return the secret's name and its origin."""
        return f"{self.secret}: {self.origin}"


LABEL_NAME = RegexValidator(
    r"^[a-zA-Z_][a-zA-Z0-9_]*$", "Use a Prometheus label name: letters, digits and underscores."
)


class AdmissionMode(models.TextChoices):
    """What our webhook does with a pod of a cluster."""

    OFF = "off"
    """Pods are admitted without a check."""
    WARN = "warn"
    """Everything is counted and admitted; what would be refused is answered with a warning."""
    ENFORCE = "enforce"


class FailurePolicy(models.TextChoices):
    """What a pod is answered while the database cannot be reached."""

    ALLOW = "allow"
    """Admit it: the namespace's ResourceQuota still holds, and the watch finds the pod."""
    DENY = "deny"


class QuotaTarget(models.TextChoices):
    """What a project's limit becomes in a cluster."""

    RESOURCE_QUOTA = "resource_quota"
    KUEUE = "kueue"


class Cluster(models.Model):
    """One Kubernetes cluster and the Prometheus that watches it.

    `label_aliases` and `metric_aliases` map a name of ours to the names a site uses, best first
    ({"hostname": ["hostname", "Hostname"]}). `selector_label` and `selector_value` choose this
    cluster's series in a Prometheus shared by several. `credential_reference` and
    `prometheus_credential_reference` name secrets; the secrets themselves are never stored here.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    slug = models.CharField(max_length=63, unique=True, validators=[SLUG])
    name = models.CharField(max_length=200)
    state = models.CharField(
        max_length=16, choices=LifecycleState.choices, default=LifecycleState.ACTIVE
    )
    kubernetes_url = ServerURLField(blank=True, default="")
    is_watched = models.BooleanField(default=False)
    """Whether `watch_cluster` keeps the allocation ledger from this cluster's API."""
    prometheus_url = ServerURLField(blank=True, default="")
    prometheus_credential_reference = models.CharField(max_length=200, blank=True, default="")
    prometheus_scope_org_id = models.CharField(max_length=256, blank=True, default="")
    """Which tenant of a shared Mimir or Thanos holds its series, as X-Scope-OrgID says it."""
    credential_reference = models.CharField(max_length=200, blank=True, default="")
    credential_expires_at = models.DateTimeField(null=True, blank=True)
    """When the token of `credential_reference` ends, as `renew_cluster_tokens` last read it."""
    selector_label = models.CharField(
        max_length=64, blank=True, default="", validators=[LABEL_NAME]
    )
    selector_value = models.CharField(max_length=128, blank=True, default="")
    scrape_interval_seconds = models.PositiveIntegerField(
        default=30, validators=[MinValueValidator(1)]
    )
    user_label = models.CharField(max_length=128, blank=True, default="")
    label_aliases = models.JSONField(default=dict, blank=True)
    metric_aliases = models.JSONField(default=dict, blank=True)
    offered_resources = models.JSONField(default=list, blank=True)
    """Every GPU resource name the cluster offers, so that a quota can name each."""
    admission_mode = models.CharField(
        max_length=16,
        choices=AdmissionMode.choices,
        default=AdmissionMode.OFF,
        db_default=AdmissionMode.OFF.value,
    )
    """Needs a watched cluster: without a watch the end of admitted pods is not observed."""
    admission_on_failure = models.CharField(
        max_length=16,
        choices=FailurePolicy.choices,
        default=FailurePolicy.ALLOW,
        db_default=FailurePolicy.ALLOW.value,
    )
    kubernetes_user_prefix = models.CharField(max_length=64, blank=True, default="", db_default="")
    """What the API server puts before a person's name, such as "oidc:"; taken off for ours."""
    trusted_controllers = models.JSONField(
        default=list, blank=True, db_default=models.Value([], models.JSONField())
    )
    """User names of operators whose pods may carry another's owner annotation, beside the
    controllers of kube-system."""
    quota_target = models.CharField(
        max_length=16,
        choices=QuotaTarget.choices,
        default=QuotaTarget.RESOURCE_QUOTA,
        db_default=QuotaTarget.RESOURCE_QUOTA.value,
    )
    metered_from = models.DateTimeField()
    """The first hour that is metered; windows are made from here on."""
    metered_until = models.DateTimeField(null=True, blank=True)
    """The first hour that is no longer metered; None until further notice."""
    closed_at = models.DateTimeField(null=True, blank=True)
    """When it was closed; hours that began before are metered."""
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["slug"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(scrape_interval_seconds__gte=1),
                name="cluster_scrape_interval_positive",
            ),
            models.CheckConstraint(
                condition=models.Q(metered_until__isnull=True)
                | models.Q(metered_until__gt=models.F("metered_from")),
                name="cluster_metered_until_after_from",
            ),
        ]

    def __str__(self) -> str:
        """Return the name people know it by."""
        return self.name


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
