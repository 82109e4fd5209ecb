"""Plans of a simulated world's organizations, projects, people and prices."""

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True)
class PersonPlan:
    """A person with a login; `role` is one of tenants' roles."""

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
    """An organization, its people and its projects; `country` is a code of ISO 3166-1."""

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
    country: str = ""


@dataclass(frozen=True)
class PlannedPrice:
    """A price of one unit-hour from a day of the demo's month on.

    Attributes:
        price_group: "*" for any share of a device.
        from_day: 0 for the begin of all metering; else the day of the month, from 00:00 UTC.
    """

    size: str
    price_group: str
    unit_price: Decimal
    from_day: int = 0


@dataclass(frozen=True)
class PlannedBook:
    """A price book for every organization that is billed in its currency."""

    slug: str
    name: str
    currency: str
    prices: tuple[PlannedPrice, ...]
