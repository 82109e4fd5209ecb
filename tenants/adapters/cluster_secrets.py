"""Secrets of clusters: files below one directory, or variables with one prefix; nothing else.

A reference is stored by people of the platform, so it must reach no other secret of this host: not
the database URL, not the token pepper, not `/proc/self/environ`.
"""

import os
import stat
from pathlib import Path
from typing import Final

from django.conf import settings

from tenants.domain.secret_references import VARIABLE_PREFIX, relative_path_problem

SECRET_BYTES_MAX: Final = 256 * 1024
"""A kubeconfig with its certificates is below 64 KiB."""


class SecretForbiddenError(Exception):
    """A reference leads outside; the text names the remedy, and never what is in the file."""


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
