"""The unprivileged account that servers run as when the caller is root.

PostgreSQL refuses to run as root. A root caller's servers run as `nobody`; where that account
cannot reach the checkout (below a closed home, say), state and binaries live in /var/tmp instead,
in a folder named after the checkout. `make clean` reads that folder's path from the file `moved-to`
beside the wanted folder.
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
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}
"""What servers see: libpq inside PostgreSQL would look for keys in a real home."""
MOVED_TO = "moved-to"


@dataclass(frozen=True)
class ServerAccount:
    """The account that servers run as. `uid` is None when they run as the caller."""

    uid: int | None = None
    gid: int | None = None

    def popen_identity(self) -> dict[str, Any]:
        """Return what subprocess needs to change to this account; empty for the caller's own."""
        if self.uid is None:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def popen_arguments(self) -> dict[str, Any]:
        """Return what subprocess needs to run a short command under this account."""
        return {"cwd": "/", "env": ENVIRONMENT, **self.popen_identity()}

    def own(self, path: Path) -> None:
        """Give a file or a folder to the account."""
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid)

    def reaches(self, path: Path, mode: str = "-x") -> bool:
        """Whether the account may enter a folder or run a file (`-x`), or read a file (`-r`)."""
        done = subprocess.run(  # noqa: S603 - Fixed program, our own path.
            ["test", mode, str(path)],  # noqa: S607 - Found on the fixed PATH above.
            check=False,
            **self.popen_arguments(),
        )
        return done.returncode == 0


def server_account() -> ServerAccount:
    """Return `nobody` for a root caller, and the caller's own account otherwise."""
    if os.geteuid() != 0:
        return ServerAccount()
    nobody = pwd.getpwnam("nobody")
    return ServerAccount(uid=nobody.pw_uid, gid=grp.getgrgid(nobody.pw_gid).gr_gid)


def state_folder(account: ServerAccount, wanted: Path) -> Path:
    """Return a folder for a server's state that its account owns and can reach.

    Args:
        account: The account the server runs as.
        wanted: Where the state should be, below the checkout.

    Raises:
        PermissionError: The fallback folder belongs to another account.
    """
    wanted.mkdir(parents=True, exist_ok=True)
    pointer = wanted / MOVED_TO
    if account.reaches(wanted) and not pointer.exists():
        folder = wanted
    else:
        folder = fallback_folder(wanted)
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_symlink() or folder.stat().st_uid not in {os.geteuid(), account.uid}:
            raise PermissionError(f"{folder} belongs to another user; remove it.")
        pointer.write_text(f"{folder}\n", encoding="utf-8")
    account.own(folder)
    folder.chmod(0o700)
    return folder


def fallback_folder(wanted: Path) -> Path:
    """Return the fallback folder for state that cannot lie in its wanted folder."""
    digest = hashlib.sha256(str(wanted).encode()).hexdigest()[:12]
    return FALLBACK_ROOT / f"gpu-ledger-{digest}"


def reachable_binaries(account: ServerAccount, folder: Path, *, program: str, state: Path) -> Path:
    """Return `folder`, or a copy of it inside the state when the account cannot run its program.

    Args:
        account: The account that runs it.
        folder: The programs, with the libraries beside them.
        program: One program's path inside the folder.
        state: A folder the account can reach; the copy is made there.
    """
    if account.reaches(folder / program):
        return folder
    stamp = hashlib.sha256(f"{folder}:{(folder / program).stat().st_mtime_ns}".encode())
    copy = state / f"programs-{stamp.hexdigest()[:12]}"
    if not copy.exists():
        partial = copy.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(folder, partial, symlinks=True)
        _open_to_account(account, partial)
        partial.rename(copy)
    return copy


def _open_to_account(account: ServerAccount, folder: Path) -> None:
    """Give a copied tree to the account, whatever the modes of the original were."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            account.own(path)
            path.chmod(path.stat().st_mode | 0o500)
