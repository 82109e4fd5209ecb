"""Secrets of clusters: files below one directory, or variables with one prefix; nothing else.

A reference is stored by people of the platform, so it must reach no other secret of this host: not
the database URL, not the token pepper, not `/proc/self/environ`.
"""

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import yaml
from django.conf import settings

from tenants.domain.secret_references import (
    REFERENCE_FIELDS,
    VARIABLE_PREFIX,
    host_of,
    relative_path_problem,
    split_reference,
)

PIN_FILE_END: Final = ".host"
PIN_VARIABLE_END: Final = "_HOST"
SECRET_BYTES_MAX: Final = 256 * 1024
"""A kubeconfig with its certificates is below 64 KiB."""


class SecretForbiddenError(Exception):
    """A secret is not used; the text names the remedy, and never what is in the file.

    Attributes:
        code: Of the field's problem, where a reference is stored.
    """

    def __init__(self, message: str, *, code: str = "path_forbidden") -> None:
        """Keep the code."""
        super().__init__(message)
        self.code = code


def secret_variable(name: str) -> str:
    """Return a variable's value, "" when it is not set.

    Raises:
        SecretForbiddenError: It is no variable of a cluster.
    """
    if not name.startswith(VARIABLE_PREFIX):
        raise SecretForbiddenError(f"Name a variable that begins with {VARIABLE_PREFIX}.")
    return os.environ.get(name, "").strip()


def secret_path(path: str, *, below: Path | None = None) -> Path:
    """Return where a secret is, with every symbolic link followed.

    Args:
        path: Relative to `below`.
        below: A folder inside the directory of secrets; that directory itself by default.

    Raises:
        SecretForbiddenError: It is, or leads, outside the directory.
    """
    directory = Path(settings.CLUSTER_SECRETS_DIR).resolve()
    remedy = f"Put the file below {directory}, and name it relative to that directory."
    if problem := relative_path_problem(path):
        raise SecretForbiddenError(f"{problem} {remedy}")
    resolved = ((below or directory) / path).resolve()
    if not resolved.is_relative_to(directory):
        raise SecretForbiddenError(f"It leads outside the directory of secrets. {remedy}")
    return resolved


def pinned_hosts(reference: str) -> frozenset[str] | None:
    """Return the hosts that an operator pinned a secret to, beside it; None without a pin.

    For a file they are in `<file>.host`, for a variable in `<NAME>_HOST`, separated by spaces or
    lines. A pin that cannot be read allows no host.

    Raises:
        SecretForbiddenError: The secret is, or its pin leads, outside the directory.
    """
    kind, name = split_reference(reference)
    if kind == "env":
        text = os.environ.get(f"{name}{PIN_VARIABLE_END}")
        return None if text is None else frozenset(text.lower().split())
    if kind != "file":
        return None
    resolved = secret_path(name)
    pins = {resolved.with_name(resolved.name + PIN_FILE_END), secret_path(name + PIN_FILE_END)}
    try:
        hosts = [frozenset(_read_pin(pin)) for pin in pins if os.path.lexists(pin)]
    except (OSError, ValueError):
        return frozenset()
    return frozenset.intersection(*hosts) if hosts else None


def require_pinned_host(reference: str, *, url: str) -> None:
    """Refuse to send a secret to another host than it is pinned to.

    Raises:
        SecretForbiddenError: The URL's host is another.
    """
    hosts = pinned_hosts(reference)
    if hosts is not None and host_of(url) not in hosts:
        raise SecretForbiddenError(
            "The secret is pinned to another host. Correct the URL, or the pin beside the secret."
        )


def read_pins(fields: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    """Return the pinned hosts of the references among a cluster's fields, by reference.

    Those that lead outside are left out: they are refused for that, and at each use.
    """
    pins: dict[str, frozenset[str]] = {}
    for field in REFERENCE_FIELDS:
        reference = str(fields.get(field) or "")
        with suppress(SecretForbiddenError):
            hosts = pinned_hosts(reference)
            if hosts is not None:
                pins[reference] = hosts
    return pins


def require_plain_secret(text: str) -> None:
    """Refuse a kubeconfig, or other JSON or YAML, where one token or password is expected.

    One line of JSON would pass for both in a header, and show all that it holds to the server.

    Raises:
        SecretForbiddenError: It is structured.
    """
    if _is_structured(text.strip()):
        raise SecretForbiddenError(
            "It holds JSON or YAML, such as a kubeconfig. Put one token or user:password there;"
            " name a kubeconfig as kubeconfig:<path> in credential_reference.",
            code="secret_not_plain",
        )


def check_plain_secret(reference: str) -> None:
    """Refuse a structured secret of a file or variable, as far as it is there now.

    Raises:
        SecretForbiddenError: It is structured, or leads outside the directory.
    """
    kind, name = split_reference(reference)
    try:
        if kind == "file":
            require_plain_secret(read_secret(secret_path(name)).decode())
        elif kind == "env":
            require_plain_secret(secret_variable(name))
    except (OSError, ValueError):
        return


def _is_structured(text: str) -> bool:
    if text.startswith(("{", "[")):
        return True
    try:
        content = yaml.safe_load(text)
    except RecursionError:
        return True
    except (yaml.YAMLError, ValueError):
        return False
    # A password may end in a colon, which YAML reads as a key without a value.
    has_values = isinstance(content, dict) and any(one is not None for one in content.values())
    return has_values or isinstance(content, list)


def _read_pin(path: Path) -> list[str]:
    return read_secret(path).decode().lower().split()


def read_secret(path: Path) -> bytes:
    """Return what a regular file holds, as far as a secret may be long.

    Args:
        path: From `secret_path`.

    Raises:
        OSError: It cannot be read, or is no regular file.
    """
    # Neither a link that was put there since, nor a pipe that never ends.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("it is no regular file")
        return file.read(SECRET_BYTES_MAX)
