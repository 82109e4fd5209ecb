"""What is wrong with the files and addresses that a cluster names, as far as it shows at once.

The same is looked at again at each use: a file may come later, and a name may resolve to another
address.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from kubernetes.config.config_exception import ConfigException

from tenants.adapters.cluster_secrets import (
    SecretForbiddenError,
    check_plain_secret,
    named_secrets,
)
from tenants.adapters.guarded import forbidden_networks, is_in, read_address, serves_credentials
from tenants.adapters.kubernetes_credentials import (
    KUBECONFIG,
    check_reference,
    kubeconfig_secrets,
)
from tenants.domain.clusters import (
    REFERENCE_FIELDS,
    NamedSecret,
    reference_problems,
)
from tenants.domain.errors import FieldProblem

_FORBIDDEN = forbidden_networks()


def reach_problems(fields: Mapping[str, Any]) -> tuple[FieldProblem, ...]:
    """Return the problems of references and URLs that lead where no call may go.

    Args:
        fields: Of a new cluster, or those that change.
    """
    found = [
        *(_reference_problem(field, str(fields.get(field, ""))) for field in REFERENCE_FIELDS),
        *(
            _address_problem(field, str(fields.get(field, "")))
            for field in ("kubernetes_url", "prometheus_url")
        ),
    ]
    return tuple(problem for problem in found if problem is not None)


def read_secrets(references: Iterable[str]) -> dict[str, tuple[NamedSecret, ...]]:
    """Return the files and variables that references lead to, with their pins, by reference.

    What cannot be read, or leads outside, is left out: it is refused for that, and at each use.
    """
    found = {}
    for reference in references:
        with suppress(SecretForbiddenError, ConfigException, OSError, ValueError):
            if reference.startswith(KUBECONFIG):
                found[reference] = kubeconfig_secrets(reference.removeprefix(KUBECONFIG))
            else:
                found[reference] = named_secrets(reference)
    return found


def _reference_problem(field: str, reference: str) -> FieldProblem | None:
    """Return the problem of a file or variable; what its name shows is a matter of the service."""
    if reference_problems(field, reference):
        return None
    check = check_reference if field == "credential_reference" else check_plain_secret
    try:
        check(reference)
    except SecretForbiddenError as error:
        text = str(error)
        return FieldProblem(field, error.code, f"{text[:1].upper()}{text[1:]}")
    return None


def _address_problem(field: str, url: str) -> FieldProblem | None:
    """Return the problem of a URL with a forbidden IP address; names are resolved at use."""
    try:
        address = read_address(urlsplit(url).hostname or "")
    except ValueError:
        return None
    if not (is_in(address, _FORBIDDEN) or serves_credentials(address)):
        return None
    message = "This address lies in a forbidden network. Use the server's own address."
    return FieldProblem(field, "address_forbidden", message)
