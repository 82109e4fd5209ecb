"""Checks of a cluster's Kubernetes API: does it answer, and may the service do what it has to."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from django.utils import timezone

from config.doctor.clusters import ClusterFacts, clock_result
from config.doctor.findings import CheckResult, counted, listed, ok, problem, sentence, warning
from config.doctor.rights import CLUSTER_WIDE, ServicePart, parts_of
from quotas.adapters.cluster_calls import ClusterCalls
from quotas.adapters.cluster_inspection import ClusterInspection, ClusterRight
from quotas.protocols import EnforcementEndpoint
from tenants.domain.errors import SourceUnavailableError
from tenants.models import Cluster

PAGE: Final = "docs/how-to/connect-a-cluster.md"
NAMES: Final = ("kubernetes", "kubernetes-clock", "credential", "permissions")
NAMESPACES_MAX: Final = 5
"""Where a right is granted by namespace, so many of those that are bound are asked about."""
TOKEN_LEFT_MIN: Final = timedelta(hours=4)
_REMEDIES: Final[Mapping[str, str]] = {
    "unreachable": "Check kubernetes_url and its certificate, and that this host may reach it.",
    "timeout": "Check kubernetes_url, and that no firewall drops the connection.",
    "unauthorized": "Put a new token where credential_reference says, and run `renewer`.",
    "credentials_missing": "Put the token or kubeconfig where credential_reference says.",
    "credentials_forbidden": "Name another credential; the page says which are sent where.",
}


def inspection_of(cluster: Cluster, calls: ClusterCalls) -> ClusterInspection:
    """Return how to ask a cluster's API."""
    endpoint = EnforcementEndpoint(
        cluster.slug, cluster.kubernetes_url, cluster.credential_reference, cluster.quota_target
    )
    return ClusterInspection(calls, endpoint)


def has_api(cluster: Cluster) -> bool:
    """Whether the API of a cluster is known."""
    return bool(cluster.kubernetes_url or cluster.credential_reference)


def unanswered(check: str, error: SourceUnavailableError) -> CheckResult:
    """Return that an API server did not answer, or refused us."""
    remedy = _REMEDIES.get(error.reason, "See the log of the API server.")
    return problem(check, sentence(error), remedy, PAGE)


def check_kubernetes(facts: ClusterFacts, calls: ClusterCalls) -> Iterator[CheckResult]:
    """Yield what a cluster's API says; where it does not answer, no more than that."""
    if not has_api(facts.cluster):
        yield ok("kubernetes", "No API is set: no quota is written, and nothing is watched.")
        return
    inspection = inspection_of(facts.cluster, calls)
    try:
        version, clock = inspection.version(), inspection.clock()
        at = timezone.now()
        # The version is for everybody; whether the credential is known shows only here.
        rights = list(_rights(facts, inspection))
    except SourceUnavailableError as error:
        yield unanswered("kubernetes", error)
        return
    yield ok("kubernetes", f"The API server answers, with version {version}.")
    yield clock_result("kubernetes-clock", clock, at=at)
    yield _credential(facts.cluster, at=at)
    yield from rights


def _credential(cluster: Cluster, *, at: datetime) -> CheckResult:
    expires_at = cluster.credential_expires_at
    if expires_at is None:
        return ok("credential", f"The API server knows the credential of {cluster.slug}.")
    left = expires_at - at
    if left > TOKEN_LEFT_MIN:
        return ok("credential", f"Its token is valid for {left / timedelta(hours=1):,.0f} h.")
    return warning(
        "credential",
        f"Its token ends at {expires_at:%Y-%m-%d %H:%M} UTC, and was not renewed.",
        "Run `manage.py renew_cluster_tokens --every 600`, the service `renewer` of Compose.",
        PAGE,
    )


def _rights(facts: ClusterFacts, inspection: ClusterInspection) -> Iterator[CheckResult]:
    """Yield what each part of the service lacks; one finding where none lacks anything."""
    parts = parts_of(facts.cluster)
    lacking = [(part, _denied(part, facts, inspection)) for part in parts]
    for part, denied in lacking:
        if denied:
            yield _lack(part, denied)
    if not any(denied for _, denied in lacking):
        count = len({right for part in parts for right in part.rights})
        yield ok("permissions", f"The account has all {count} rights that the service uses.")


def _lack(part: ServicePart, denied: list[ClusterRight]) -> CheckResult:
    state = problem if part.is_needed else warning
    return state(
        "permissions",
        f"Without {counted(len(denied), 'right')} {part.without}: {listed(map(str, denied))}.",
        f"Apply deploy/kubernetes/{part.manifest}, and bind its role to the account.",
        PAGE,
    )


def _denied(
    part: ServicePart, facts: ClusterFacts, inspection: ClusterInspection
) -> list[ClusterRight]:
    """Return the rights that the account has neither everywhere nor in the bound namespaces."""
    denied = inspection.denied(part.rights)
    namespaces = facts.namespaces[:NAMESPACES_MAX]
    if not namespaces:
        return denied
    return [
        right
        for right in denied
        if right.resource in CLUSTER_WIDE
        or inspection.denied(replace(right, namespace=namespace) for namespace in namespaces)
    ]
