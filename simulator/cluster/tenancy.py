"""Who a simulated world belongs to: organizations, people, projects and namespaces as plans."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PersonPlan:
    """Somebody with a login; role is a name out of tenants' roles."""

    username: str
    name: str
    role: str
    project: str = ""


@dataclass(frozen=True)
class NamespacePlan:
    """A namespace bound to a project; `default_owner` is a username or ""."""

    cluster: str
    namespace: str
    default_owner: str = ""


@dataclass(frozen=True)
class ProjectPlan:
    """A project and the namespaces its pods run in."""

    slug: str
    name: str
    cost_center: str
    namespaces: tuple[NamespacePlan, ...]


@dataclass(frozen=True)
class OrganizationPlan:
    """An organization, its people and its projects."""

    slug: str
    name: str
    billing_currency: str
    time_zone: str
    cost_center: str
    billing_contact: str
    billing_email: str
    billing_address: str
    people: tuple[PersonPlan, ...]
    projects: tuple[ProjectPlan, ...]
