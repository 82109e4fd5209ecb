"""The stage: one cluster that is watched, its project, and a process that leads the watch."""

import pytest

from tenants.models import Cluster, Project
from tests.support.builders import bind, make_cluster, make_organization, make_project
from tests.support.metering.allocations.states import Watching, lead, reported_node
from tests.support.metering.seen import HOUR
from tests.support.shared_rows import shared_rows


@shared_rows
def cluster() -> Cluster:
    """A watched cluster that is metered from `HOUR`."""
    return make_cluster(metered_from=HOUR, is_watched=True)


@shared_rows
def project(cluster: Cluster) -> Project:
    """The project that namespace `team-nlp` belongs to."""
    project = make_project(make_organization())
    bind(cluster, "team-nlp", project)
    return project


@pytest.fixture
def watching(cluster: Cluster, project: Project) -> Watching:  # noqa: ARG001 - It is bound.
    """A process that leads the watch, healthy from the hour's start, and knows node-1."""
    found = lead(cluster.id)
    found.list(-60, reported_node())
    found.list(-60)
    found.beat(0)
    return found
