"""Writing namespace bindings: which project pays for a namespace, by whole UTC hours."""

import re
from datetime import datetime, timedelta
from typing import Final

from django.contrib.auth.models import User
from django.db import transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from tenants.domain.actors import Actor
from tenants.domain.clusters import hour_problems
from tenants.domain.errors import FieldProblem
from tenants.domain.hours import floor_hour
from tenants.domain.refusals import (
    BindingEndedError,
    ClusterClosedError,
    NamespaceBoundError,
    OrganizationClosedError,
    ProjectClosedError,
)
from tenants.models import Cluster, NamespaceBinding, Organization, Project
from tenants.models.organization import LifecycleState
from tenants.selectors.locks import lock_in_order
from tenants.selectors.validation import refuse_invalid
from tenants.services.changing import add_row, change_row, lock_version

_NAMESPACE: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
"""Source: RFC 1123 labels, as Kubernetes names its namespaces."""


@transaction.atomic
def bind_namespace(  # noqa: PLR0913 - A record's columns; all are keyword only.
    *,
    cluster: Cluster,
    namespace: str,
    project: Project,
    valid_from: datetime,
    valid_until: datetime | None = None,
    default_owner: User | None = None,
    actor: Actor,
    at: datetime,
) -> NamespaceBinding:
    """Bind a namespace of a cluster to a project for whole UTC hours.

    Hours already sealed keep the project they were metered for.

    Args:
        cluster: Where the namespace is.
        namespace: Its name.
        project: The project charged for its usage.
        valid_from: The first hour.
        valid_until: The first hour no longer bound; None for "until further notice".
        default_owner: The owner of pods without a user label.
        actor: The caller.
        at: When, UTC.

    Raises:
        InvalidInputError: Fields are wrong; every problem is listed.
        OrganizationClosedError: The project's organization is closed.
        ProjectClosedError: The project is closed.
        ClusterClosedError: The cluster is closed.
        NamespaceBoundError: Some of these hours are bound already.
    """
    binding = NamespaceBinding(
        cluster=cluster,
        namespace=namespace,
        project=project,
        default_owner=default_owner,
        valid=DateTimeTZRange(valid_from, valid_until),
        created_at=at,
    )
    problems = (
        *_name_problems(namespace),
        *_range_problems(valid_from, valid_until),
        *_owner_problems(default_owner),
    )
    refuse_invalid(binding, further=problems)
    _require_open(cluster=cluster, project=project)
    _require_free(binding)
    add_row(
        row=binding,
        refusals={"namespace_bindings_do_not_overlap": _bound_refusal(binding, None)},
        actor=actor,
        at=at,
        organization_id=project.organization_id,
        facts={
            "cluster": cluster.slug,
            "namespace": namespace,
            "project_id": str(project.pk),
            "valid_from": valid_from.isoformat(),
            "valid_until": valid_until.isoformat() if valid_until else None,
        },
    )
    return binding


@transaction.atomic
def close_binding(
    *,
    binding: NamespaceBinding,
    valid_until: datetime,
    expected_version: int | None = None,
    actor: Actor,
    at: datetime,
) -> NamespaceBinding:
    """End a binding at an hour; hours already begun keep their project.

    Args:
        binding: Which one.
        valid_until: The first hour no longer bound: after `at`.
        expected_version: The version the caller saw; None when it does not matter.
        actor: The caller.
        at: When, UTC.

    Raises:
        StaleVersionError: It was changed in the meantime.
        BindingEndedError: It has ended already.
        InvalidInputError: The hour does not lie between now, its begin, and its end.
    """
    row = lock_version(binding, expected_version=expected_version, actor=actor)
    if row.valid.upper is not None and row.valid.upper <= floor_hour(at):
        raise BindingEndedError(f"The binding ended at {row.valid.upper.isoformat()}.")
    refuse_invalid(row, further=_end_problems(row, valid_until, at))
    return change_row(
        row=row,
        changes={"valid": DateTimeTZRange(row.valid.lower, valid_until)},
        verb="close",
        actor=actor,
        at=at,
        organization_id=row.project.organization_id,
    )


def _name_problems(namespace: str) -> tuple[FieldProblem, ...]:
    if _NAMESPACE.fullmatch(namespace):
        return ()
    message = "Use the name of a Kubernetes namespace: a-z, 0-9 and dashes."
    return (FieldProblem("namespace", "not_a_namespace", message),)


def _range_problems(valid_from: datetime, valid_until: datetime | None) -> tuple[FieldProblem, ...]:
    problems = hour_problems("valid_from", valid_from)
    if valid_until is not None:
        problems += hour_problems("valid_until", valid_until)
    if not problems and valid_until is not None and valid_until <= valid_from:
        problems += (FieldProblem("valid_until", "not_after_begin", "End after the begin."),)
    return problems


def _owner_problems(owner: User | None) -> tuple[FieldProblem, ...]:
    if owner is None or owner.is_active:
        return ()
    return (FieldProblem("default_owner", "inactive", "Choose an active user."),)


def _end_problems(
    row: NamespaceBinding, valid_until: datetime, at: datetime
) -> tuple[FieldProblem, ...]:
    """Return what is wrong with a new end: it lies in (begin, end] and in the future."""
    problems = hour_problems("valid_until", valid_until)
    if problems:
        return problems
    earliest = max(floor_hour(at), row.valid.lower) + timedelta(hours=1)
    latest = row.valid.upper
    if valid_until < earliest:
        message = f"End at {earliest.isoformat()} or later: hours already begun keep their project."
        return (FieldProblem("valid_until", "too_early", message),)
    if latest is not None and valid_until > latest:
        message = f"End at {latest.isoformat()} or earlier, or bind the later hours anew."
        return (FieldProblem("valid_until", "too_late", message),)
    return ()


def _require_open(*, cluster: Cluster, project: Project) -> None:
    """Lock organization, project and cluster against closing; refuse closed ones."""
    (organization,), (owner,), (place,) = lock_in_order(
        Organization.objects.filter(pk=project.organization_id),
        Project.objects.filter(pk=project.pk),
        Cluster.objects.filter(pk=cluster.pk),
    )
    if organization.state != LifecycleState.ACTIVE:
        raise OrganizationClosedError(f"{organization.name} is closed.", field="project")
    if owner.state != LifecycleState.ACTIVE:
        raise ProjectClosedError(f"{owner.name} is closed.", field="project")
    if place.state != LifecycleState.ACTIVE:
        raise ClusterClosedError(f"{place.name} is closed.", field="cluster")


def _require_free(binding: NamespaceBinding) -> None:
    """Refuse hours that are bound; the exclusion constraint covers concurrent writes."""
    other = (
        NamespaceBinding.objects.filter(
            cluster=binding.cluster, namespace=binding.namespace, valid__overlap=binding.valid
        )
        .order_by("-valid")
        .first()
    )
    if other is not None:
        raise _bound_refusal(binding, other)


def _bound_refusal(
    binding: NamespaceBinding, other: NamespaceBinding | None
) -> NamespaceBoundError:
    """Return the refusal with the way out: the other binding's end, when it has one."""
    until = other.valid.upper if other is not None else None
    remedy = (
        f"Bind it from {until.isoformat()} on, or end the other binding earlier."
        if until is not None
        else "End the other binding at an hour, then bind from that hour on."
    )
    return NamespaceBoundError(
        f"{binding.cluster.slug}/{binding.namespace} is bound to a project in these hours.",
        field="namespace",
        remedy=remedy,
        facts={"bound_until": until.isoformat()} if until is not None else None,
    )
