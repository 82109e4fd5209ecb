"""Secrets that clusters name already keep their origins: migrations read references as we do."""

from importlib import import_module

import psycopg

from embedded.postgres import OWNER, EmbeddedPostgres
from tenants.domain.clusters import origin_of, secrets_by_name
from tenants.models import SecretHost
from tests.support.builders import make_cluster

KNOWN = import_module("tenants.migrations.0019_secret_hosts").KNOWN
ORIGINS = import_module("tenants.migrations.0022_secret_origins").ORIGINS
REFERENCES = (
    "env:CLUSTER_SECRET_HOPPER",
    "file:hopper/token",
    "basic-file:hopper//./..data/mimir",
    "file:/run/clusters/old",
)
URLS = (
    "https://Host-0.example.test:6443/api?x=1",
    "https://host-1.example.test",
    "http://HOST-2.example.test/prometheus",
    "http://host-3.example.test:09090",
)


def test_each_secret_in_use_has_the_origin_that_it_goes_to(
    postgres: EmbeddedPostgres, committed_db: str
) -> None:
    for number, (reference, url) in enumerate(zip(REFERENCES, URLS, strict=True)):
        make_cluster(f"c-{number}", prometheus_url=url, prometheus_credential_reference=reference)
    make_cluster("v6", kubernetes_url="https://[::1]:6443", credential_reference="file:v6")
    make_cluster("own", kubernetes_url="https://own.test", credential_reference="kubeconfig:own")
    make_cluster("none")
    make_cluster("gone", kubernetes_url="https://gone", credential_reference="file:gone")

    with psycopg.connect(postgres.url(role=OWNER, database=committed_db)) as owner:
        owner.execute(KNOWN.replace("(secret, host,", "(secret, origin,"))
        owner.execute("UPDATE tenants_cluster SET kubernetes_url = '' WHERE slug = 'gone'")
        owner.execute(ORIGINS)

    expected = {
        key: origin_of(url)
        for reference, url in zip(REFERENCES, URLS, strict=True)
        for secret in secrets_by_name(reference)
        for key in secret.keys
    }
    stored = dict(SecretHost.objects.values_list("secret", "origin"))
    assert stored == {**expected, "file:v6": "https://[::1]:6443", "file:gone": ""}
