"""What the sandbox needs in the database, made through the services, once."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from django.contrib.auth.models import User

from simulator.demo.limit_seeding import seed_limits
from simulator.demo.plan import PlannedLimit
from simulator.demo.seeding import Endpoints, seed_organization
from simulator.sandbox.plan import LIMITS, OFFERED, SANDBOX, TAILSPIN
from tenants.domain.actors import Actor, system_actor
from tenants.models import AdmissionMode, Cluster, NamespaceBinding, Project
from tenants.services.clusters import register_cluster, update_cluster
from tenants.services.namespaces import bind_namespace

ACTOR: Final = system_actor("demo.sandbox")


def seed_sandbox(
    place: Endpoints,
    *,
    password: str,
    at: datetime,
    limits: Iterable[PlannedLimit] = LIMITS,
) -> None:
    """Create the sandbox's missing organization, cluster, bindings and limits.

    Args:
        place: The address of its API; updated at each start, because ports change.
        password: What its people sign in with.
        at: Now; it is metered from the hour of its first start on.
        limits: Where none is set.
    """
    seed_organization(TAILSPIN, password, actor=ACTOR, at=at)
    cluster = _cluster(place, actor=ACTOR, at=at)
    known = set(
        NamespaceBinding.objects.filter(cluster=cluster).values_list("namespace", flat=True)
    )
    for planned in TAILSPIN.projects:
        project = Project.objects.get(organization__slug=TAILSPIN.slug, slug=planned.slug)
        for namespace in planned.namespaces:
            if namespace.namespace not in known:
                bind_namespace(
                    cluster=cluster,
                    namespace=namespace.namespace,
                    project=project,
                    valid_from=cluster.metered_from,
                    default_owner=User.objects.filter(username=namespace.default_owner).first(),
                    actor=ACTOR,
                    at=at,
                )
    seed_limits(limits, actor=ACTOR, at=at)


def _cluster(place: Endpoints, *, actor: Actor, at: datetime) -> Cluster:
    reach = {
        "kubernetes_url": place.kubernetes_url,
        "credential_reference": place.credential_reference,
    }
    cluster = Cluster.objects.filter(slug=SANDBOX).first()
    if cluster is None:
        return register_cluster(
            slug=SANDBOX,
            name="Sandbox",
            metered_from=at.replace(minute=0, second=0, microsecond=0),
            offered_resources=OFFERED,
            is_watched=True,
            admission_mode=AdmissionMode.ENFORCE.value,
            kubernetes_url=place.kubernetes_url,
            credential_reference=place.credential_reference,
            actor=actor,
            at=at,
        )
    if any(getattr(cluster, name) != value for name, value in reach.items()):
        return update_cluster(cluster=cluster, changes=reach, actor=actor, at=at)
    return cluster
