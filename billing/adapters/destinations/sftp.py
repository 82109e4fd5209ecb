"""Export files on an SFTP server: written beside their name, and renamed once they are whole."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from posixpath import join
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import asyncssh

from billing.adapters.destinations import secret_of
from billing.protocols import ExportPlace, OutgoingFile
from tenants.adapters.guarded import GuardedPoster
from tenants.domain.errors import SourceUnavailableError

PORT: Final = 22
_PRIVATE_KEY: Final = "-----BEGIN"


class SftpDestination:
    """Puts files on SFTP servers as `GuardedPoster` with these options allows to reach them."""

    def __init__(self, **guard: Any) -> None:  # noqa: ANN401 - As the poster takes them.
        """Keep the guard."""
        self.guard = GuardedPoster(**guard)

    def deliver(self, file: OutgoingFile) -> None:
        """Put a file; until it is whole, its name ends in .part.

        Raises:
            SourceUnavailableError: The secret is missing or wrong, the server has another key, or
                the file cannot be put there.
        """
        with _as_unavailable():
            asyncio.run(self._put(file))

    def check(self, place: ExportPlace) -> None:
        """Sign in, and ask whether the folder is there.

        Raises:
            SourceUnavailableError: As `deliver` does.
        """
        with _as_unavailable():
            asyncio.run(self._look(place))

    async def _put(self, file: OutgoingFile) -> None:
        target = join(_folder_of(file.address), file.name)
        async with self._connected(file.place) as client:
            await client.put(str(file.path), f"{target}.part")
            await client.posix_rename(f"{target}.part", target)

    async def _look(self, place: ExportPlace) -> None:
        async with self._connected(place) as client:
            await client.stat(_folder_of(place.address))

    @asynccontextmanager
    async def _connected(self, place: ExportPlace) -> AsyncIterator[asyncssh.SFTPClient]:
        secret, parts = secret_of(place.secret_reference), urlsplit(place.address)
        host, port = parts.hostname or "", parts.port or PORT
        is_key = secret.startswith(_PRIVATE_KEY)
        # A variable of a container file has no lines of its own.
        keys = [asyncssh.import_private_key(secret.replace("\\n", "\n"))] if is_key else []
        async with (
            asyncssh.connect(
                host,
                port,
                sock=self.guard.dial(host, port),
                username=unquote(parts.username or ""),
                known_hosts=([asyncssh.import_public_key(place.host_key)], [], []),
                client_keys=keys or None,
                password=None if is_key else secret,
                agent_path=None,
                config=None,
                login_timeout=self.guard.timeout_seconds,
                keepalive_interval=self.guard.timeout_seconds,
            ) as connection,
            connection.start_sftp_client() as client,
        ):
            yield client


def _folder_of(address: str) -> str:
    return unquote(urlsplit(address).path) or "/"


@contextmanager
def _as_unavailable() -> Iterator[None]:
    try:
        yield
    except asyncssh.HostKeyNotVerifiable as error:
        raise SourceUnavailableError(
            "The server has another key.", reason="host_key_changed"
        ) from error
    except asyncssh.PermissionDenied as error:
        raise SourceUnavailableError(
            "The server does not admit the user with this secret.", reason="login_refused"
        ) from error
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
        raise SourceUnavailableError(
            "The secret is no private key without passphrase.", reason="secret_invalid"
        ) from error
    except asyncssh.SFTPError as error:
        raise SourceUnavailableError(
            f"The server did not take it: {type(error).__name__}.", reason="sftp_refused"
        ) from error
    except (asyncssh.Error, OSError) as error:
        raise SourceUnavailableError(
            f"The connection failed: {type(error).__name__}.", reason="unreachable"
        ) from error
