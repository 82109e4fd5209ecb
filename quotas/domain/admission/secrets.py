"""Secrets in webhook addresses: how a managed API server without a certificate proves itself."""

import hashlib
import hmac
import re
from collections.abc import Collection
from typing import Final

SECRET_BYTES: Final = 32
SECRET: Final = re.compile(r"[-\w]{43}", re.ASCII)
"""32 random bytes in the letters of a URL."""
SECRET_PATH: Final = re.compile(
    r"/secret/([-\w]{43})(/(?:admit/[-\w]+/pods|stamp/[-\w]+|warn/[-\w]+))", re.ASCII
)
"""The address of a webhook: the secret, and the path by which others reach it."""


def path_with_secret(secret: str, path: str) -> str:
    """Return the path that a cluster's configuration names."""
    return f"/secret/{secret}{path}"


def digest_of(secret: str) -> str:
    """Return what is kept of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def is_one_of(secret: str, digests: Collection[str]) -> bool:
    """Whether a secret is one of those kept; takes as long whatever differs, and where."""
    shown = digest_of(secret)
    same = [hmac.compare_digest(shown, kept) for kept in digests]
    return any(same)
