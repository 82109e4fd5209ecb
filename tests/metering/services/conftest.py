"""The stage of most tests here: one cluster whose first hour is due, and one project in it."""

from metering.services.collection.windows import open_due_windows
from tenants.models import Cluster, Project
from tests.support.builders import bind, make_cluster, make_organization, make_project
from tests.support.metering.collecting import DUE
from tests.support.metering.seen import HOUR
from tests.support.shared_rows import shared_rows


@shared_rows
def cluster() -> Cluster:
    """A cluster that is metered from `HOUR`."""
    return make_cluster(metered_from=HOUR)


@shared_rows
def project(cluster: Cluster) -> Project:
    """The project that namespace `team-nlp` belongs to; the cluster's first window is open."""
    project = make_project(make_organization())
    bind(cluster, "team-nlp", project)
    open_due_windows(at=DUE)
    return project
