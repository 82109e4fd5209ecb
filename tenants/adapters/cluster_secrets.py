"""Secrets of clusters: files below one directory, or variables with one prefix; nothing else.

A reference is stored by people of the platform, so it must reach no other secret of this host: not
the database URL, not the token pepper, not `/proc/self/environ`.
"""

import os
import stat
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

import yaml
from django.conf import settings

from tenants.domain.clusters import (
    VARIABLE_PREFIX,
    NamedSecret,
    file_key,
    origin_of,
    pin_label,
    read_pin,
    relative_path_problem,
    secrets_by_name,
    split_reference,
)

PIN_FILE_END: Final = ".host"
PIN_VARIABLE_END: Final = "_HOST"
SECRET_BYTES_MAX: Final = 256 * 1024
"""A kubeconfig with its certificates is below 64 KiB."""


class SecretForbiddenError(Exception):
    """A secret is not used; the text names the remedy, never the content of the file.

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
    try:
        resolved = ((below or directory) / path).resolve()
        is_loop = resolved.is_symlink()
    except (OSError, RuntimeError):  # Python before 3.13 raises the latter for a loop of links.
        is_loop = True
    if is_loop:
        raise SecretForbiddenError(f"Its symbolic links lead to each other. {remedy}")
    if not resolved.is_relative_to(directory):
        raise SecretForbiddenError(f"It leads outside the directory of secrets. {remedy}")
    return resolved


def named_secrets(reference: str) -> tuple[NamedSecret, ...]:
    """Return the file or variable of a reference with its pin; none for other kinds.

    An operator pins a file in `<file>.host`, a variable in `<NAME>_HOST`; see `read_pin`.

    Raises:
        SecretForbiddenError: The secret is, or its pin leads, outside the directory.
    """
    kind, name = split_reference(reference)
    if kind == "file":
        return (named_file(name),)
    return tuple(replace(one, origins=_variable_pin(name)) for one in secrets_by_name(reference))


def named_file(
    path: str, *, below: Path | None = None, url: str = "", is_public: bool = False
) -> NamedSecret:
    """Return a file with its pin, which is beside the file or beside a link to it, or both.

    Args:
        path: Relative to `below`.
        below: As of `secret_path`.
        url: Where a kubeconfig has it sent; "" for the cluster's own URL.
        is_public: Whether it is a certificate.

    Raises:
        SecretForbiddenError: It is, or its pin leads, outside the directory.
    """
    directory = Path(settings.CLUSTER_SECRETS_DIR).resolve()
    resolved = secret_path(path, below=below)
    name = str(((below or directory) / path).relative_to(directory))
    pins = {
        resolved.with_name(resolved.name + PIN_FILE_END),
        secret_path(path + PIN_FILE_END, below=below),
    }
    return NamedSecret(
        keys=tuple(dict.fromkeys((file_key(name), file_key(str(resolved.relative_to(directory)))))),
        label=name,
        pin=pin_label("file", name),
        origins=_file_pins(pin for pin in pins if os.path.lexists(pin)),
        url=url,
        is_public=is_public,
    )


def require_pinned_origin(secrets: Iterable[NamedSecret], *, url: str) -> None:
    """Refuse to send secrets to another scheme, host or port than they are pinned to.

    Args:
        secrets: What a reference names.
        url: Where they would be sent.

    Raises:
        SecretForbiddenError: A pin names others only.
    """
    for secret in secrets:
        if secret.origins is not None and origin_of(url) not in secret.origins:
            raise SecretForbiddenError(
                f"The secret {secret.label} is pinned to another host, port or scheme than"
                f" {origin_of(url) or 'this URL'}. Correct the URL, or {secret.pin}."
            )


def _variable_pin(name: str) -> frozenset[str] | None:
    text = os.environ.get(f"{name}{PIN_VARIABLE_END}")
    return None if text is None else read_pin(text)


def _file_pins(paths: Iterable[Path]) -> frozenset[str] | None:
    """Return what all pins allow, nothing where one cannot be read; None without a pin."""
    try:
        pins = [read_pin(read_secret(path).decode()) for path in paths]
    except (OSError, ValueError):
        return frozenset()
    return frozenset.intersection(*pins) if pins else None


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
