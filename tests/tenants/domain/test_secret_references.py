"""What a reference to a cluster's secret may look like."""

import pytest

from tenants.domain.clusters import reference_problems

KUBERNETES, PROMETHEUS = "credential_reference", "prometheus_credential_reference"


@pytest.mark.parametrize(
    ("field", "reference"),
    [
        (KUBERNETES, ""),
        (KUBERNETES, "in-cluster"),
        (KUBERNETES, "kubeconfig:hopper/kubeconfig"),
        (KUBERNETES, "file:hopper/token"),
        (KUBERNETES, "env:CLUSTER_SECRET_HOPPER"),
        (PROMETHEUS, "env:CLUSTER_SECRET_HOPPER"),
        (PROMETHEUS, "basic-env:CLUSTER_SECRET_1"),
        (PROMETHEUS, "file:token"),
        (PROMETHEUS, "basic-file:hopper/..data/prometheus"),
    ],
)
def test_a_reference_names_a_secret_of_a_cluster(field: str, reference: str) -> None:
    assert reference_problems(field, reference) == ()


@pytest.mark.parametrize(
    ("field", "reference", "code"),
    [
        (PROMETHEUS, "eyJhbGciOi.x.y", "not_a_reference"),
        (PROMETHEUS, "kubeconfig:hopper", "not_a_reference"),
        (PROMETHEUS, "in-cluster", "not_a_reference"),
        (KUBERNETES, "basic-file:hopper", "not_a_reference"),
        (KUBERNETES, "vault:hopper", "not_a_reference"),
        (KUBERNETES, "env:DATABASE_URL", "variable_forbidden"),
        (PROMETHEUS, "basic-env:API_TOKEN_PEPPER", "variable_forbidden"),
        (PROMETHEUS, "env:CLUSTER_SECRET_", "variable_forbidden"),
        (PROMETHEUS, "env:CLUSTER_SECRET_\u00c9", "variable_forbidden"),
        (PROMETHEUS, "env:CLUSTER_SECRETS_DIR", "variable_forbidden"),
        (PROMETHEUS, "file:/proc/self/environ", "path_forbidden"),
        (PROMETHEUS, "file:/run/secrets/database_url", "path_forbidden"),
        (KUBERNETES, "kubeconfig:hopper/../../secrets/kubeconfig", "path_forbidden"),
        (KUBERNETES, "file:..", "path_forbidden"),
        (KUBERNETES, "file:", "path_forbidden"),
        (KUBERNETES, "file:a b", "path_forbidden"),
    ],
)
def test_a_reference_that_leads_elsewhere_is_a_problem_of_its_field(
    field: str, reference: str, code: str
) -> None:
    (problem,) = reference_problems(field, reference)

    assert (problem.field, problem.code) == (field, code)
