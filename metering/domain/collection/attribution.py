"""Attribution: whose usage it is, from the namespace's binding at the time and the pod's label."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID


class BindingFact(Protocol):
    """One namespace bound to one project for a range of hours; see tenants' directory."""

    @property
    def namespace(self) -> str:
        """Return the namespace."""
        ...

    @property
    def project_id(self) -> UUID:
        """Return the project it is bound to."""
        ...

    @property
    def organization_id(self) -> UUID:
        """Return the project's organization."""
        ...

    @property
    def default_owner(self) -> str:
        """Return the user name that owns what no label claims; "" for none."""
        ...

    @property
    def begin_at(self) -> datetime:
        """Return the first hour, included."""
        ...

    @property
    def end_at(self) -> datetime | None:
        """Return the end, excluded; None for until further notice."""
        ...


@dataclass(frozen=True)
class NamespaceOwner:
    """The owner of a namespace at some moment."""

    organization_id: UUID
    project_id: UUID
    default_owner: str


Directory = Mapping[str, Sequence[BindingFact]]
"""Namespace to its bindings."""


def directory_of(bindings: Iterable[BindingFact]) -> Directory:
    """Return bindings by namespace."""
    by_namespace: dict[str, list[BindingFact]] = defaultdict(list)
    for binding in bindings:
        by_namespace[binding.namespace].append(binding)
    return by_namespace


def tenant_at(directory: Directory, *, namespace: str, moment: datetime) -> NamespaceOwner | None:
    """Return the owner of a namespace at a moment, or None when it was not bound."""
    for binding in directory.get(namespace, ()):
        if binding.begin_at <= moment and (binding.end_at is None or moment < binding.end_at):
            return NamespaceOwner(
                organization_id=binding.organization_id,
                project_id=binding.project_id,
                default_owner=binding.default_owner,
            )
    return None


def owner_of(*, label: str, default_owner: str) -> str:
    """Return the owning user's name: the pod's label, else the default, else "" (unattributed)."""
    return label or default_owner
