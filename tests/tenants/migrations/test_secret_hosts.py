"""Secrets that clusters name already keep their hosts: the migration reads references as we do."""

from importlib import import_module

import pytest
from django.db import connection

from tenants.domain.secret_references import host_of, secret_key
from tenants.models import SecretHost
from tests.builders import make_cluster

KNOWN = import_module("tenants.migrations.0019_secret_hosts").KNOWN
REFERENCES = (
    "env:CLUSTER_SECRET_HOPPER",
    "file:hopper/token",
    "basic-file:hopper//./..data/mimir",
    "file:/run/clusters/old",
)


@pytest.mark.django_db
def test_each_secret_in_use_has_the_host_that_it_goes_to() -> None:
    for number, reference in enumerate(REFERENCES):
        url = f"https://Host-{number}.example.test:6443/api?x=1"
        make_cluster(f"c-{number}", prometheus_url=url, prometheus_credential_reference=reference)
    make_cluster("v6", kubernetes_url="https://[::1]:6443", credential_reference="file:v6")
    make_cluster("own", kubernetes_url="https://own.test", credential_reference="kubeconfig:own")
    make_cluster("none")

    with connection.cursor() as cursor:
        cursor.execute(KNOWN)

    expected = {
        secret_key(reference): host_of(f"https://host-{number}.example.test")
        for number, reference in enumerate(REFERENCES)
    }
    stored = dict(SecretHost.objects.values_list("secret", "host"))
    assert stored == {**expected, "file:v6": "::1"}
