"""The leaf of an audit entry: SHA-256 over 0x00 and the length-prefixed parts of the row.

The database computes the same at insert; here it is computed again, to prove that nothing was
changed since. Source: RFC 6962, section 2.1, for the leading zero byte of a leaf.
"""

import hashlib
from collections.abc import Iterable

LEAF_PREFIX = b"\x00"


def audit_leaf(parts: Iterable[str]) -> bytes:
    """Return the hash of a row's parts, 32 bytes.

    Args:
        parts: In order: id, time, actor kind, actor id, actor label, action, object kind, object
            id, organization id or "", facts, and the time and transaction of the database where the
            entry has them; as the database writes them.
    """
    digest = hashlib.sha256(LEAF_PREFIX)
    for part in parts:
        encoded = part.encode()
        digest.update(f"{len(encoded)}:".encode())
        digest.update(encoded)
    return digest.digest()
