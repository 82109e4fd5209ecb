"""The stage of the REST tests: everybody, one metered hour, and one that was hardly seen."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from metering.services.collection.sweeping import meter_due
from tests.support.builders import bind, make_cluster
from tests.support.cast import Cast, make_cast
from tests.support.metering.clients import ClientFor
from tests.support.metering.seen import (
    HOUR,
    LATER,
    MIXED_H100,
    moment,
    node,
    observation,
    pod,
    ticks,
    worker,
)
from tests.support.shared_rows import shared_rows


@shared_rows
def cast() -> Cast:
    """Everybody, after one metered hour and one that was hardly seen."""
    people = make_cast()
    cluster = make_cluster(metered_from=HOUR)
    bind(cluster, "llm", people.llm, default_owner=people.carol)
    bind(cluster, "vision", people.vision)
    bind(cluster, "virus", people.virus)
    second = HOUR + timedelta(hours=1)
    metering = worker(
        observation(
            pod("a", namespace="llm", units=2),
            pod("b", "nvidia_com_mig_1g_10gb", namespace="vision", labels=MIXED_H100),
            pod("c", namespace="virus"),
            pod("d", namespace="stray"),
            pod("e", namespace="llm", node="bare", labels={}),
            nodes=(node(allocatable={"nvidia_com_gpu": 8, "nvidia_com_mig_1g_10gb": 1}),),
        ),
        observation(
            start_at=second,
            end_at=second + timedelta(hours=1),
            ticks=ticks(begin=1800, start_at=second),
        ),
    )
    meter_due(worker=metering, at=moment(2 * 3600 + LATER))
    return people


@pytest.fixture
def client_for() -> ClientFor:
    """Return a client signed in as somebody."""

    def api_client(user: User) -> APIClient:
        client = APIClient()
        client.force_login(user)
        return client

    return api_client
