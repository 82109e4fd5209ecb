"""Kubernetes credentials: found where a cluster's reference says, never kept by us.

A `credential_reference` is one of:

- `kubeconfig:<path>`: a kubeconfig file, with its current context;
- `env:<NAME>`: a bearer token in the variable NAME for the cluster's `kubernetes_url`; the variable
  `<NAME>_CA_FILE` may name the file of the certificate authority;
- `file:<path>`: a bearer token in a file, for the cluster's `kubernetes_url`; a `ca.crt` beside it
  is the certificate authority, as a mounted service account secret has it;
- `in-cluster`: the service account of the pod the service runs in.

Everything is read anew at each call, so a token that was rotated is found by asking again.
"""

import os
from pathlib import Path
from typing import Final

from kubernetes import client, config
from kubernetes.config.config_exception import ConfigException

from tenants.domain.errors import SourceUnavailableError

KUBECONFIG: Final = "kubeconfig:"
ENVIRONMENT: Final = "env:"
FILE: Final = "file:"
IN_CLUSTER: Final = "in-cluster"
AUTHORITY_NAME: Final = "ca.crt"


def configuration_of(*, slug: str, url: str, reference: str) -> client.Configuration:
    """Return a client configuration for a cluster, read afresh.

    Args:
        slug: Our name of the cluster, for the sentence of a refusal.
        url: Where its API answers; a kubeconfig and `in-cluster` know that themselves.
        reference: See the top of this module.

    Raises:
        SourceUnavailableError: The reference is of no known kind, or what it names is not there.
    """
    configuration = client.Configuration()
    # Callers try again with a growing wait; a second layer would only hide it.
    configuration.retries = False
    try:
        _fill(configuration, reference, url=url)
    except (ConfigException, OSError, UnicodeDecodeError) as error:
        raise SourceUnavailableError(
            f"The credentials of cluster {slug} cannot be read: {error}",
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
    elif reference.startswith(FILE):
        _fill_from_file(configuration, Path(reference.removeprefix(FILE)), url=url)
    elif reference == IN_CLUSTER:
        config.load_incluster_config(  # type: ignore[no-untyped-call]
            client_configuration=configuration
        )
    else:
        raise ConfigException("use kubeconfig:<path>, env:<NAME>, file:<path> or in-cluster")


def _fill_from_environment(configuration: client.Configuration, name: str, *, url: str) -> None:
    token = os.environ.get(name, "").strip()
    if not token or not url:
        raise ConfigException(f"set the variable {name} and the cluster's kubernetes_url")
    _fill_token(configuration, token, url=url)
    authority = os.environ.get(f"{name}_CA_FILE")
    if authority:
        configuration.ssl_ca_cert = authority


def _fill_from_file(configuration: client.Configuration, path: Path, *, url: str) -> None:
    token = path.read_text(encoding="utf-8").strip()
    if not token or not url:
        raise ConfigException(f"put a token into {path} and set the cluster's kubernetes_url")
    _fill_token(configuration, token, url=url)
    authority = path.with_name(AUTHORITY_NAME)
    if authority.is_file():
        configuration.ssl_ca_cert = str(authority)


def _fill_token(configuration: client.Configuration, token: str, *, url: str) -> None:
    configuration.host = url.rstrip("/")
    configuration.api_key = {"BearerToken": f"Bearer {token}"}
