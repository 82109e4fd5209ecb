"""Export files in a bucket of Amazon S3, or of a store that speaks its protocol."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from minio import Minio
from minio.error import MinioException, S3Error
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager, Retry
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError

from billing.adapters.destinations import secret_of
from billing.protocols import ExportPlace, OutgoingFile
from tenants.adapters.guarded import GuardedPoster
from tenants.domain.errors import SourceUnavailableError

RETRIES: Final = Retry(total=2, backoff_factor=0.2, status_forcelist=[500, 502, 503, 504])
PART_BYTES: Final = 16 * 1024 * 1024
"""Of an upload in parts, of which one is in memory."""


class BucketDestination:
    """Puts files into buckets as `GuardedPoster` with these options allows to reach them."""

    def __init__(self, **guard: Any) -> None:  # noqa: ANN401 - As the poster takes them.
        """Keep the guard."""
        self.guard = GuardedPoster(**guard)

    def deliver(self, file: OutgoingFile) -> None:
        """Put a file; the store shows it once it has all of it.

        Raises:
            SourceUnavailableError: The secret is missing or wrong, or it cannot be put there.
        """
        bucket, folder = _bucket_of(file.address)
        name = f"{folder}/{file.name}" if folder else file.name
        with _as_unavailable(), file.path.open("rb") as content:
            self._client(file.place).put_object(
                bucket_name=bucket,
                object_name=name,
                data=content,
                length=file.size,
                content_type=file.content_type,
                metadata={"sha256": file.sha256},
                part_size=PART_BYTES,
                num_parallel_uploads=1,
            )

    def check(self, place: ExportPlace) -> None:
        """Ask whether a bucket is there.

        Raises:
            SourceUnavailableError: As `deliver` does; `not_shown` where the key may only write.
        """
        with _as_unavailable():
            try:
                is_there = self._client(place).bucket_exists(
                    bucket_name=_bucket_of(place.address)[0]
                )
            except S3Error as error:
                if error.code == "AccessDenied":
                    raise SourceUnavailableError(
                        "The key may not ask whether the bucket is there.", reason="not_shown"
                    ) from error
                raise
        if not is_there:
            raise SourceUnavailableError("The bucket is not there.", reason="bucket_refused")

    def _client(self, place: ExportPlace) -> Minio:
        parts = urlsplit(place.address)
        is_secure = parts.scheme == "https"
        if not is_secure and parts.hostname not in self.guard.clear_text_hosts:
            raise SourceUnavailableError("Only https is spoken here.", reason="not_https")
        key, colon, secret = secret_of(place.secret_reference).partition(":")
        if not (key and colon and secret):
            raise SourceUnavailableError(
                "The secret is no access key, colon and secret key.", reason="secret_invalid"
            )
        region = parse_qs(parts.query).get("region")
        return Minio(
            endpoint=parts.netloc,
            access_key=key,
            secret_key=secret,
            secure=is_secure,
            region=region[0] if region else None,
            http_client=self._pools(),
        )

    def _pools(self) -> PoolManager:
        """Return connections that are made to checked addresses only."""
        guard = self.guard

        class Plain(HTTPConnection):
            def _new_conn(self) -> socket.socket:
                return guard.dial(self.host, self.port or 80)

        class Secure(HTTPSConnection):
            def _new_conn(self) -> socket.socket:
                return guard.dial(self.host, self.port or 443)

        class PlainPool(HTTPConnectionPool):
            ConnectionCls = Plain

        class SecurePool(HTTPSConnectionPool):
            ConnectionCls = Secure

        pools = PoolManager(
            timeout=guard.timeout_seconds, retries=RETRIES, ssl_context=guard.context
        )
        pools.pool_classes_by_scheme = {"http": PlainPool, "https": SecurePool}
        return pools


def _bucket_of(address: str) -> tuple[str, str]:
    """Return the bucket and the folder of a URL; "" for none."""
    bucket, _, folder = urlsplit(address).path.lstrip("/").partition("/")
    return bucket, folder.strip("/")


@contextmanager
def _as_unavailable() -> Iterator[None]:
    try:
        yield
    except S3Error as error:
        raise SourceUnavailableError(
            f"The bucket answered {error.code}.", reason="bucket_refused"
        ) from error
    except (MinioException, HTTPError, ValueError) as error:
        raise SourceUnavailableError(
            f"The bucket could not be reached: {type(error).__name__}.", reason="unreachable"
        ) from error
