"""Kubernetes credentials: read from a cluster's reference at each use, never stored.

A `credential_reference` is one of:

- `kubeconfig:<path>`: a kubeconfig file, with its current context;
- `env:CLUSTER_SECRET_<NAME>`: a bearer token in a variable, for the cluster's `kubernetes_url`; the
  variable `CLUSTER_SECRET_<NAME>_CA_FILE` may name the file of the certificate authority;
- `file:<path>`: a bearer token in a file, for the cluster's `kubernetes_url`; a `ca.crt` beside it
  is the certificate authority, as a mounted service account secret has it;
- `in-cluster`: the service account of the pod the service runs in.

What is pinned beside it, by `CLUSTER_SECRET_<NAME>_HOST` or `<path>.host`, is sent to no other
host, port or scheme, whether a reference or a kubeconfig names it. Paths are relative to
CLUSTER_SECRETS_DIR and end below it. Everything is read anew at each call, so the next call uses a
token that was rotated.
"""

import os
import re
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import yaml
from kubernetes import client, config
from kubernetes.client.rest import RESTClientObject
from kubernetes.config.config_exception import ConfigException

from tenants.adapters.cluster_secrets import (
    SecretForbiddenError,
    check_plain_secret,
    named_file,
    named_secrets,
    read_secret,
    require_pinned_origin,
    require_plain_secret,
    secret_path,
    secret_variable,
)
from tenants.adapters.guarded import forbidden_networks, guard_connections
from tenants.domain.clusters import IN_CLUSTER, NamedSecret
from tenants.domain.errors import SourceUnavailableError

KUBECONFIG: Final = "kubeconfig:"
ENVIRONMENT: Final = "env:"
FILE: Final = "file:"
AUTHORITY_NAME: Final = "ca.crt"
_RUNS_PROGRAMS: Final = frozenset({"exec", "auth-provider"})
_NAMES_FILES: Final = (
    "certificate-authority",
    "client-certificate",
    "client-key",
    "tokenFile",
)
_PUBLIC: Final = frozenset({"certificate-authority", "client-certificate"})
_FORBIDDEN: Final = forbidden_networks()
_TOKEN: Final = re.compile(r"(?:[Bb]earer )?[\x21-\x7e]+")


def configuration_of(*, slug: str, url: str, reference: str) -> client.Configuration:
    """Return a client configuration for a cluster, read afresh.

    Args:
        slug: Our name of the cluster, for the sentence of a refusal.
        url: Where its API answers; a kubeconfig and `in-cluster` know that themselves.
        reference: See the top of this module.

    Raises:
        SourceUnavailableError: `credentials_missing` when the reference is of no known kind or what
            it names is not there, `credentials_forbidden` when it leads elsewhere.
    """
    configuration = client.Configuration()
    # Callers try again with a growing wait; a second layer would only hide it.
    configuration.retries = False
    # The guard reads the address of the peer, which must not be a proxy's.
    configuration.proxy = None
    try:
        _fill(configuration, reference, url=url)
        _require_tokens(configuration)
    except SecretForbiddenError as error:
        raise SourceUnavailableError(
            f"The credentials of cluster {slug} are not used: {error}",
            reason="credentials_forbidden",
        ) from error
    except (ConfigException, OSError, ValueError) as error:
        raise SourceUnavailableError(
            f"The credentials of cluster {slug} cannot be read: {error}",
            reason="credentials_missing",
        ) from error
    return configuration


def check_reference(reference: str) -> None:
    """Refuse what a reference names, as far as it is there now; nothing is made of it.

    Raises:
        SecretForbiddenError: It is never used: it leads outside, a kubeconfig runs a program, or
            stands where a token is expected.
    """
    if not reference.startswith(KUBECONFIG):
        check_plain_secret(reference)
        return
    name = reference.removeprefix(KUBECONFIG)
    try:
        _bind_all_files(_read_kubeconfig(name), below=secret_path(name).parent)
    except (ConfigException, OSError, ValueError):
        return


def guarded_rest(configuration: client.Configuration) -> RESTClientObject:
    """Return the client's transport, over connections that reach no forbidden address."""
    rest = RESTClientObject(configuration)
    guard_connections(rest.pool_manager, _FORBIDDEN)
    return rest


def guarded_client(configuration: client.Configuration) -> client.ApiClient:
    """Return a client over connections that reach no forbidden address."""
    made = client.ApiClient(configuration)
    made.rest_client = guarded_rest(configuration)
    return made


def _fill(configuration: client.Configuration, reference: str, *, url: str) -> None:
    require_pinned_origin(named_secrets(reference), url=url)
    if reference.startswith(KUBECONFIG):
        _fill_from_kubeconfig(configuration, reference.removeprefix(KUBECONFIG))
    elif reference.startswith(ENVIRONMENT):
        _fill_from_environment(configuration, reference.removeprefix(ENVIRONMENT), url=url)
    elif reference.startswith(FILE):
        _fill_from_file(configuration, reference.removeprefix(FILE), url=url)
    elif reference == IN_CLUSTER:
        config.load_incluster_config(  # type: ignore[no-untyped-call]
            client_configuration=configuration
        )
    else:
        raise ConfigException(
            f"use kubeconfig:<path>, env:<NAME>, file:<path> or {IN_CLUSTER}, not another kind"
        )


def _fill_from_kubeconfig(configuration: client.Configuration, name: str) -> None:
    content = _read_kubeconfig(name)
    bound = _bind_all_files(content, below=secret_path(name).parent)
    secrets = _secrets_of(content, name=name)
    try:
        config.load_kube_config_from_dict(  # type: ignore[no-untyped-call]
            bound, client_configuration=configuration, persist_config=False
        )
    except (AttributeError, KeyError, TypeError):
        raise ConfigException("the kubeconfig has not the form of one") from None
    require_pinned_origin(secrets, url=str(configuration.host))


def kubeconfig_secrets(name: str) -> tuple[NamedSecret, ...]:
    """Return a kubeconfig and the files that its current context names, with where they are sent.

    Raises:
        SecretForbiddenError: One is, or its pin leads, outside the directory.
        ConfigException: It is no kubeconfig.
        OSError: It cannot be read.
        ValueError: It is no text.
    """
    return _secrets_of(_read_kubeconfig(name), name=name)


def _secrets_of(content: dict[str, Any], *, name: str) -> tuple[NamedSecret, ...]:
    below = secret_path(name).parent
    try:
        context = _entry(content, "contexts", "context", content["current-context"])
        cluster = _entry(content, "clusters", "cluster", context["cluster"])
        user = _entry(content, "users", "user", context.get("user"))
        url = str(cluster["server"])
        files = [
            (key, str(entry[key]))
            for entry in (user, cluster)
            for key in _NAMES_FILES
            if entry.get(key)
        ]
    except (AttributeError, KeyError, TypeError):
        raise ConfigException("the kubeconfig has not the form of one") from None
    return (
        named_file(name, url=url),
        *(named_file(file, below=below, url=url, is_public=key in _PUBLIC) for key, file in files),
    )


def _entry(content: dict[str, Any], entries: str, key: str, name: object) -> dict[str, Any]:
    named = (entry for entry in content.get(entries) or [] if entry["name"] == name)
    return next((entry[key] or {} for entry in named), {})


def _read_kubeconfig(name: str) -> dict[str, Any]:
    path = secret_path(name)
    try:
        content = yaml.safe_load(read_secret(path))
    except (yaml.YAMLError, RecursionError):
        # The error's own text would repeat what is in the file.
        raise ConfigException("the kubeconfig is not YAML") from None
    if not isinstance(content, dict):
        raise ConfigException("the kubeconfig is not a map")
    return content


def _bind_all_files(content: dict[str, Any], *, below: Path) -> dict[str, Any]:
    """Return a kubeconfig that refers only to the checked files.

    Raises:
        SecretForbiddenError: As `_bind_files`.
        ConfigException: It is not a valid kubeconfig.
    """
    bound = deepcopy(content)
    try:
        for entries, key in (("users", "user"), ("clusters", "cluster")):
            for entry in bound.get(entries) or []:
                _bind_files(entry.get(key) or {}, below=below)
    except (AttributeError, TypeError):
        raise ConfigException("the kubeconfig's users and clusters are no lists of maps") from None
    return bound


def _bind_files(entry: dict[str, Any], *, below: Path) -> None:
    """Refuse programs and proxies, and let files be those that were checked.

    Raises:
        SecretForbiddenError: An entry runs a program, goes through a proxy or names a file outside.
    """
    if refused := sorted(_RUNS_PROGRAMS & entry.keys()):
        raise SecretForbiddenError(
            f"the kubeconfig has {' and '.join(refused)}, which run programs or ask elsewhere. "
            "Put a token or a client certificate into it."
        )
    if "proxy-url" in entry:
        raise SecretForbiddenError("the kubeconfig has proxy-url. Remove it.")
    for name in _NAMES_FILES:
        if entry.get(name):
            entry[name] = str(secret_path(str(entry[name]), below=below))


def _fill_from_environment(configuration: client.Configuration, name: str, *, url: str) -> None:
    token = secret_variable(name)
    if not token or not url:
        raise ConfigException(f"set the variable {name} and the cluster's kubernetes_url")
    _fill_token(configuration, token, url=url)
    authority = os.environ.get(f"{name}_CA_FILE")
    if authority:
        configuration.ssl_ca_cert = authority


def _fill_from_file(configuration: client.Configuration, name: str, *, url: str) -> None:
    path = secret_path(name)
    token = read_secret(path).decode().strip()
    if not token or not url:
        raise ConfigException(f"put a token into {path} and set the cluster's kubernetes_url")
    _fill_token(configuration, token, url=url)
    authority = path.with_name(AUTHORITY_NAME)
    if authority.is_file():
        configuration.ssl_ca_cert = str(authority)


def _fill_token(configuration: client.Configuration, token: str, *, url: str) -> None:
    configuration.host = url.rstrip("/")
    configuration.api_key = {"BearerToken": f"Bearer {token}"}


def _require_tokens(configuration: client.Configuration) -> None:
    """Refuse what is no token: JSON, and what the error of sending it would repeat in a log."""
    for value in configuration.api_key.values():
        require_plain_secret(str(value).removeprefix("Bearer "))
        if _TOKEN.fullmatch(str(value)) is None:
            raise ConfigException("what it names holds no token: put one line without spaces there")
