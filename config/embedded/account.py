"""The unprivileged account that servers run as when the caller is root.

PostgreSQL refuses to run as root. A root caller's servers run as `nobody`; where that account
cannot reach the checkout (below a closed home, say), state and binaries live in /var/tmp instead,
in a folder named after the checkout.
"""

import grp
import hashlib
import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FALLBACK_ROOT = Path("/var/tmp")  # noqa: S108 - Made with mode 700 and checked for its owner.


@dataclass(frozen=True)
class ServerAccount:
    """Who servers run as. `uid` is None when they run as the caller."""

    uid: int | None = None
    gid: int | None = None

    def popen_arguments(self) -> dict[str, Any]:
        """Return what subprocess needs to start a child under this account."""
        base: dict[str, Any] = {
            "cwd": "/",
            "env": {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"},
        }
        if self.uid is None:
            return base
        return {**base, "user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, path: Path) -> None:
        """Give a folder to the account."""
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid)

    def reaches(self, path: Path, mode: str = "-x") -> bool:
        """Whether the account may enter a folder (`-x`) or read a file (`-r`)."""
        done = subprocess.run(  # noqa: S603 - Fixed program, our own path.
            ["/usr/bin/test", mode, str(path)], check=False, **self.popen_arguments()
        )
        return done.returncode == 0


def server_account() -> ServerAccount:
    """Return `nobody` for a root caller, and the caller's own account for anybody else."""
    if os.geteuid() != 0:
        return ServerAccount()
    nobody = pwd.getpwnam("nobody")
    return ServerAccount(uid=nobody.pw_uid, gid=grp.getgrgid(nobody.pw_gid).gr_gid)


def state_folder(account: ServerAccount, wanted: Path) -> Path:
    """Return a folder for a server's state that its account owns and can reach.

    Args:
        account: Who the server runs as.
        wanted: Where the state should be, below the checkout.

    Raises:
        PermissionError: The fallback folder belongs to somebody else.
    """
    wanted.mkdir(parents=True, exist_ok=True)
    if account.reaches(wanted):
        folder = wanted
    else:
        digest = hashlib.sha256(str(wanted).encode()).hexdigest()[:12]
        folder = FALLBACK_ROOT / f"gpu-ledger-{digest}"
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_symlink() or folder.stat().st_uid not in {os.geteuid(), account.uid}:
            raise PermissionError(f"{folder} belongs to another user; remove it.")
    account.own(folder)
    folder.chmod(0o700)
    return folder


def reachable_binaries(account: ServerAccount, folder: Path, *, beside: Path) -> Path:
    """Return `folder`, or a copy of it beside the state when the account cannot read it."""
    if account.reaches(folder):
        return folder
    copy = beside.with_name(f"{beside.name}-binaries") / folder.name
    if not copy.exists():
        partial = copy.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(folder, partial, symlinks=True)
        partial.rename(copy)
    copy.parent.chmod(0o755)
    return copy
