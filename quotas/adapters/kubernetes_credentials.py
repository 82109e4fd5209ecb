"""Kubernetes credentials: found where a cluster's reference says, never kept by us.

A `credential_reference` is one of:

- `kubeconfig:<path>`: a kubeconfig file, with its current context;
- `env:<NAME>`: a bearer token in the variable NAME for the cluster's `kubernetes_url`; the variable
  `<NAME>_CA_FILE` may name the file of the certificate authority;
- `in-cluster`: the service account of the pod the service runs in.
"""

import os
from typing import Final

from kubernetes import client, config
from kubernetes.config.config_exception import ConfigException

from quotas.protocols import EnforcementEndpoint
from tenants.domain.errors import SourceUnavailableError

KUBECONFIG: Final = "kubeconfig:"
ENVIRONMENT: Final = "env:"
IN_CLUSTER: Final = "in-cluster"


def configuration_of(endpoint: EnforcementEndpoint) -> client.Configuration:
    """Return a client configuration for a cluster, read afresh.

    Raises:
        SourceUnavailableError: The reference is of no known kind, or what it names is not there.
    """
    reference = endpoint.credential_reference
    configuration = client.Configuration()
    # Sweeps retry whole targets with a growing wait; a second layer would only hide it.
    configuration.retries = False
    try:
        _fill(configuration, reference, url=endpoint.kubernetes_url)
    except (ConfigException, OSError) as error:
        raise SourceUnavailableError(
            f"The credentials of cluster {endpoint.slug} cannot be read: {error}",
            reason="credentials_missing",
        ) from error
    return configuration


def _fill(configuration: client.Configuration, reference: str, *, url: str) -> None:
    if reference.startswith(KUBECONFIG):
        path = reference.removeprefix(KUBECONFIG)
        config.load_kube_config(  # type: ignore[no-untyped-call]
            config_file=path, client_configuration=configuration
        )
    elif reference.startswith(ENVIRONMENT):
        _fill_from_environment(configuration, reference.removeprefix(ENVIRONMENT), url=url)
    elif reference == IN_CLUSTER:
        config.load_incluster_config(  # type: ignore[no-untyped-call]
            client_configuration=configuration
        )
    else:
        raise ConfigException("use kubeconfig:<path>, env:<NAME> or in-cluster")


def _fill_from_environment(configuration: client.Configuration, name: str, *, url: str) -> None:
    token = os.environ.get(name, "").strip()
    if not token or not url:
        raise ConfigException(f"set the variable {name} and the cluster's kubernetes_url")
    configuration.host = url.rstrip("/")
    configuration.api_key = {"BearerToken": f"Bearer {token}"}
    authority = os.environ.get(f"{name}_CA_FILE")
    if authority:
        configuration.ssl_ca_cert = authority
