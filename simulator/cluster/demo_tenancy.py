"""The demo's organizations, people, projects and namespaces, as plain data."""

from typing import Final

from simulator.cluster.scenario import Namespace
from simulator.cluster.tenancy import (
    NamespacePlan,
    OrganizationPlan,
    PersonPlan,
    ProjectPlan,
)

HOPPER: Final = "hopper"
AMPERE: Final = "ampere"
UNBOUND_NAMESPACE: Final = "scratch-dana"
"""A namespace on hopper that no project answers for."""

ORGANIZATIONS: Final = (
    OrganizationPlan(
        slug="northwind",
        name="Northwind Research",
        billing_currency="EUR",
        time_zone="Europe/Berlin",
        cost_center="NR-4100",
        billing_contact="Nora Berg",
        billing_email="billing@northwind.example",
        billing_address="Northwind Research GmbH\nHafenstrasse 12\n20457 Hamburg",
        country="DE",
        people=(
            PersonPlan("nora", "Nora Berg", "organization_admin"),
            PersonPlan("lukas", "Lukas Weber", "project_lead", project="llm"),
            PersonPlan("mei", "Mei Tanaka", "member", project="llm"),
            PersonPlan("ines", "Ines Duarte", "project_lead", project="genomics"),
            PersonPlan("oskar", "Oskar Lind", "member", project="courses"),
        ),
        projects=(
            ProjectPlan(
                "llm",
                "Language models",
                "NR-4110",
                (
                    NamespacePlan(HOPPER, "llm-train", default_owner="lukas"),
                    NamespacePlan(HOPPER, "llm-serve", default_owner="mei"),
                ),
            ),
            ProjectPlan("genomics", "Genomics", "NR-4120", (NamespacePlan(HOPPER, "genomics"),)),
            ProjectPlan(
                "courses",
                "Courses",
                "NR-4130",
                (NamespacePlan(AMPERE, "courses", default_owner="oskar"),),
            ),
        ),
    ),
    OrganizationPlan(
        slug="contoso",
        name="Contoso Vision",
        billing_currency="EUR",
        time_zone="UTC",
        cost_center="CV-700",
        billing_contact="Carla Conti",
        billing_email="accounts@contoso.example",
        billing_address="Contoso Vision S.r.l.\nVia Torino 5\n10123 Torino",
        country="IT",
        people=(
            PersonPlan("carla", "Carla Conti", "organization_admin"),
            PersonPlan("piotr", "Piotr Nowak", "project_lead", project="perception"),
            PersonPlan("amina", "Amina Diallo", "member", project="perception"),
            PersonPlan("sven", "Sven Holm", "member", project="labeling"),
            PersonPlan("yuki", "Yuki Mori", "project_lead", project="robotics"),
        ),
        projects=(
            ProjectPlan(
                "perception",
                "Perception",
                "CV-710",
                (
                    NamespacePlan(HOPPER, "perception", default_owner="piotr"),
                    NamespacePlan(AMPERE, "perception-dev", default_owner="amina"),
                ),
            ),
            ProjectPlan("labeling", "Labeling", "CV-720", (NamespacePlan(AMPERE, "labeling"),)),
            ProjectPlan(
                "robotics",
                "Robotics",
                "CV-730",
                (NamespacePlan(HOPPER, "robotics", default_owner="yuki"),),
            ),
        ),
    ),
    OrganizationPlan(
        slug="fabrikam",
        name="Fabrikam Labs",
        billing_currency="USD",
        time_zone="UTC",
        cost_center="FL-9",
        billing_contact="Faye Brooks",
        billing_email="ap@fabrikam.example",
        billing_address="Fabrikam Labs Inc.\n400 Pine Street\nSeattle, WA 98101",
        country="US",
        people=(
            PersonPlan("faye", "Faye Brooks", "organization_admin"),
            PersonPlan("dev", "Dev Patel", "project_lead", project="agents"),
            PersonPlan("rosa", "Rosa Lima", "member", project="agents"),
            PersonPlan("tom", "Tom Baker", "project_lead", project="simulation"),
        ),
        projects=(
            ProjectPlan(
                "agents",
                "Agents",
                "FL-91",
                (
                    NamespacePlan(HOPPER, "agents", default_owner="dev"),
                    NamespacePlan(AMPERE, "agents-dev", default_owner="rosa"),
                ),
            ),
            ProjectPlan(
                "simulation", "Simulation", "FL-92", (NamespacePlan(AMPERE, "simulation"),)
            ),
        ),
    ),
)


def namespaces_of(cluster: str) -> tuple[Namespace, ...]:
    """Return the namespaces a cluster has, the unbound one too, by name."""
    bound = {
        place.namespace: {
            "billing.example.com/organization": organization.slug,
            "billing.example.com/project": project.slug,
        }
        for organization in ORGANIZATIONS
        for project in organization.projects
        for place in project.namespaces
        if place.cluster == cluster
    }
    if cluster == HOPPER:
        bound[UNBOUND_NAMESPACE] = {}
    return tuple(
        Namespace(name, {"kubernetes.io/metadata.name": name, **labels})
        for name, labels in sorted(bound.items())
    )
