"""A fleet: the two clusters of the demo again and again, each with pods of its own."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from itertools import islice

from simulator.cluster.demo_scenario import demo_scenario
from simulator.cluster.demo_tenancy import ORGANIZATIONS
from simulator.cluster.scenario import Scenario, SimulatedCluster
from simulator.cluster.tenancy import OrganizationPlan, ProjectPlan


def fleet_scenario(seed: int, month_start: datetime, until: datetime, *, clusters: int) -> Scenario:
    """Return so many clusters, whose namespaces belong to the demo's projects; without outages.

    Args:
        seed: Of the first pair; each further pair has the next one.
        month_start: Begin of the month, aware UTC.
        until: Pods are created before this.
        clusters: How many; the first is `hopper-1`, the second `ampere-1`, the third `hopper-2`.
    """

    def pairs() -> Iterator[SimulatedCluster]:
        for number in range(1, clusters + 1):
            pair = demo_scenario(seed + number - 1, month_start, until, outages=())
            for cluster in pair.clusters:
                yield replace(
                    cluster,
                    slug=f"{cluster.slug}-{number}",
                    name=f"{cluster.name} {number}",
                )

    fleet = tuple(islice(pairs(), clusters))
    slugs = [cluster.slug for cluster in fleet]
    return Scenario(
        seed=seed,
        begin_at=month_start,
        until=until,
        organizations=tuple(_spread(plan, slugs) for plan in ORGANIZATIONS),
        clusters=fleet,
    )


def _spread(plan: OrganizationPlan, slugs: list[str]) -> OrganizationPlan:
    return replace(plan, projects=tuple(_spread_project(one, slugs) for one in plan.projects))


def _spread_project(plan: ProjectPlan, slugs: list[str]) -> ProjectPlan:
    """Return a project with its namespaces in every cluster of their kind."""
    return replace(
        plan,
        namespaces=tuple(
            replace(namespace, cluster=slug)
            for namespace in plan.namespaces
            for slug in slugs
            if slug.rpartition("-")[0] == namespace.cluster
        ),
    )
