"""Destinations of exports against real servers: S3, SFTP, a mailbox and a webhook."""

import asyncio
import email.policy
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email import message_from_bytes
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncssh
import boto3
import pytest
from moto.server import ThreadedMotoServer
from pytest_django import Settings

from billing.adapters.destinations.bucket import BucketDestination
from billing.adapters.destinations.mail import MailDestination
from billing.adapters.destinations.sftp import SftpDestination
from billing.adapters.destinations.webhook import WebhookDestination
from billing.protocols import ExportDestination, OutgoingFile
from tenants.adapters.notification_mail import ATTACHED_BYTES_MAX
from tenants.domain.errors import SourceUnavailableError
from tests.support.tenants.receivers import mailbox, receiving

LOCAL: dict[str, Any] = {"allowed_networks": ("127.0.0.1/32",), "clear_text_hosts": ("127.0.0.1",)}
WEBHOOK_SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
LARGE = 20 * 1024 * 1024
"""More than a part of an upload to a bucket."""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OutgoingFile:
    monkeypatch.setenv("EXPORT_SECRET_T", "user:a-secret")
    return made(tmp_path, b"month,amount\n2026-10,1.00\n")


def made(folder: Path, content: bytes) -> OutgoingFile:
    path = folder / "lines-2026-10.csv"
    path.write_bytes(content)
    return OutgoingFile(
        file_id=UUID("01890000-0000-7000-8000-000000000001"),
        run_id=UUID("01890000-0000-7000-8000-000000000002"),
        schedule="erp",
        month="2026-10",
        name=path.name,
        content_type="text/csv; charset=utf-8",
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        path=path,
        address="",
        secret_reference="env:EXPORT_SECRET_T",
        host_key="",
        occurred_at=datetime(2026, 11, 2, 6, tzinfo=UTC),
    )


def reason_of(destination: ExportDestination, file: OutgoingFile) -> str:
    with pytest.raises(SourceUnavailableError) as refusal:
        destination.deliver(file)
    assert "a-secret" not in str(refusal.value)
    return refusal.value.reason


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    """Return the URL of an S3 server with the bucket "ledger"."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    client(f"http://{host}:{port}").create_bucket(Bucket="ledger")
    yield f"http://{host}:{port}"
    server.stop()


def client(url: str) -> "boto3.client":
    return boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="user",
        aws_secret_access_key="a-secret",
    )


def test_a_file_is_put_into_a_folder_of_a_bucket_and_put_again(
    store: str, file: OutgoingFile
) -> None:
    sent = replace(file, address=f"{store}/ledger/gpu/months")

    for _ in range(2):
        BucketDestination(**LOCAL).deliver(sent)

    stored = client(store).list_objects_v2(Bucket="ledger", Prefix="gpu/")["Contents"]
    found = client(store).get_object(Bucket="ledger", Key="gpu/months/lines-2026-10.csv")
    assert [one["Key"] for one in stored] == ["gpu/months/lines-2026-10.csv"]
    assert found["Body"].read() == file.path.read_bytes()
    assert found["Metadata"] == {"sha256": file.sha256}


@pytest.mark.usefixtures("file")
def test_a_large_file_is_put_in_parts(store: str, tmp_path: Path) -> None:
    content = bytes(range(256)) * (LARGE // 256)
    sent = replace(made(tmp_path, content), address=f"{store}/ledger/large?region=us-east-1")

    BucketDestination(**LOCAL).deliver(sent)

    found = client(store).get_object(Bucket="ledger", Key="large/lines-2026-10.csv")
    assert hashlib.sha256(found["Body"].read()).hexdigest() == sent.sha256


def test_a_bucket_that_cannot_be_written_says_why(store: str, file: OutgoingFile) -> None:
    missing = replace(file, address=f"{store}/nothing")

    assert reason_of(BucketDestination(**LOCAL), missing) == "bucket_refused"


@pytest.mark.parametrize(
    ("address", "guard", "reason"),
    [
        ("http://127.0.0.1:1/ledger", LOCAL, "unreachable"),
        ("https://127.0.0.1:1/ledger", {}, "address_forbidden"),
        ("http://127.0.0.1:1/ledger", {}, "not_https"),
        (
            "https://169.254.169.254/ledger",
            {"allowed_networks": ["0.0.0.0/0"]},
            "address_forbidden",
        ),
    ],
)
def test_internal_addresses_are_reached_only_where_allowed(
    file: OutgoingFile,
    address: str,
    guard: dict[str, tuple[str, ...]],
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent = replace(file, address=address)
    host_key = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()
    over_sftp = replace(sent, address="sftp://user@127.0.0.1:1/in", host_key=host_key.strip())

    assert reason_of(BucketDestination(**guard), sent) == reason
    if not guard:
        assert reason_of(SftpDestination(), over_sftp) == "address_forbidden"
        monkeypatch.setenv("EXPORT_SECRET_T", WEBHOOK_SECRET)
        posted = replace(file, address="https://127.0.0.1/x")
        assert reason_of(WebhookDestination(public_url=""), posted) == "address_forbidden"


@dataclass
class Server:
    """An SFTP server that admits "user" by password or key."""

    port: int
    root: Path
    host_key: str
    client_key: str


class OneUser(asyncssh.SSHServer):
    """Admits one user by password; keys are admitted by the server's file."""

    def begin_auth(self, username: str) -> bool:
        return bool(username)

    def password_auth_supported(self) -> bool:
        return True

    def validate_password(self, username: str, password: str) -> bool:
        return (username, password) == ("user", "user:a-secret")


@contextmanager
def sftp_server(folder: Path) -> Iterator[Server]:
    root = folder / "root"
    (root / "in").mkdir(parents=True)
    host, key = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    keys = folder / "authorized_keys"
    keys.write_bytes(key.export_public_key())
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def listen() -> asyncssh.SSHAcceptor:
        return await asyncssh.listen(
            "127.0.0.1",
            0,
            server_factory=OneUser,
            server_host_keys=[host],
            authorized_client_keys=str(keys),
            sftp_factory=lambda channel: asyncssh.SFTPServer(channel, chroot=bytes(root)),
        )

    listening = asyncio.run_coroutine_threadsafe(listen(), loop).result(timeout=10)
    yield Server(
        listening.get_port(),
        root,
        host.export_public_key().decode().strip(),
        key.export_private_key().decode(),
    )
    loop.call_soon_threadsafe(listening.close)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(timeout=5)
    loop.close()


@pytest.fixture
def sftp(tmp_path: Path) -> Iterator[Server]:
    with sftp_server(tmp_path) as server:
        yield server


def over(server: Server, file: OutgoingFile, folder: str = "/in") -> OutgoingFile:
    address = f"sftp://user@127.0.0.1:{server.port}{folder}"
    return replace(file, address=address, host_key=server.host_key)


def test_a_file_is_put_on_an_sftp_server_whole_and_put_again(
    sftp: Server, file: OutgoingFile
) -> None:
    for _ in range(2):
        SftpDestination(**LOCAL).deliver(over(sftp, file))

    assert [one.name for one in (sftp.root / "in").iterdir()] == ["lines-2026-10.csv"]
    assert (sftp.root / "in" / file.name).read_bytes() == file.path.read_bytes()


def test_a_private_key_with_escaped_lines_admits_too(
    sftp: Server, file: OutgoingFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXPORT_SECRET_T", sftp.client_key.strip().replace("\n", "\\n"))

    SftpDestination(**LOCAL).deliver(over(sftp, file))

    assert (sftp.root / "in" / file.name).exists()


def test_what_an_sftp_server_refuses_says_why(
    sftp: Server, file: OutgoingFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    destination, sent = SftpDestination(**LOCAL), over(sftp, file)
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().strip()

    reasons = [
        reason_of(destination, replace(sent, host_key=other)),
        reason_of(destination, over(sftp, file, "/nowhere")),
    ]
    monkeypatch.setenv("EXPORT_SECRET_T", "wrong")
    reasons.append(reason_of(destination, sent))
    monkeypatch.setenv("EXPORT_SECRET_T", "-----BEGIN nothing")
    reasons.append(reason_of(destination, sent))
    monkeypatch.delenv("EXPORT_SECRET_T")
    reasons.append(reason_of(destination, sent))

    assert reasons == [
        "host_key_changed",
        "sftp_refused",
        "login_refused",
        "secret_invalid",
        "secret_missing",
    ]
    assert list((sftp.root / "in").iterdir()) == []


def test_a_webhook_is_told_where_the_file_is(
    file: OutgoingFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXPORT_SECRET_T", WEBHOOK_SECRET)
    with receiving() as receiver:
        sent = replace(file, address=f"http://127.0.0.1:{receiver.port}/ready")
        WebhookDestination(public_url="https://ledger.test", **LOCAL).deliver(sent)
        receiver.answer = b"HTTP/1.1 500 No\r\n\r\n"
        refused = reason_of(WebhookDestination(public_url="", **LOCAL), sent)
        got = receiver.posts[0]

    body = json.loads(got.body)
    assert refused == "status_500"
    assert got.headers["webhook-id"] == str(file.file_id)
    assert got.headers["webhook-signature"].startswith("v1,")
    assert body["file"] == {
        "name": file.name,
        "content_type": file.content_type,
        "size": file.size,
        "sha256": file.sha256,
        "url": f"https://ledger.test/api/v1/export-files/{file.file_id}/content/",
    }


def test_a_mail_carries_the_file_up_to_its_limit(file: OutgoingFile, settings: Settings) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    sent = replace(file, address="erp@acme.test")
    with mailbox() as server:
        settings.EMAIL_HOST, settings.EMAIL_PORT = server.server_address[:2]
        MailDestination(sender="ledger@example.test").deliver(sent)
        server.answer = b"451 later"
        refused = reason_of(MailDestination(sender="ledger@example.test"), sent)
        read = message_from_bytes(server.mails[0], policy=email.policy.default)
    too_large = replace(sent, size=ATTACHED_BYTES_MAX + 1)

    (attached,) = read.iter_attachments()
    assert (attached.get_filename(), attached.get_content()) == (
        file.name,
        "month,amount\r\n2026-10,1.00\r\n",
    )
    assert refused == "mail_refused"
    assert reason_of(MailDestination(sender="ledger@example.test"), too_large) == "too_large"


def check_reason(destination: ExportDestination, file: OutgoingFile) -> str:
    with pytest.raises(SourceUnavailableError) as refusal:
        destination.check(file.place)
    assert "a-secret" not in str(refusal.value)
    return refusal.value.reason


def test_a_bucket_is_found_without_a_file_in_it(store: str, file: OutgoingFile) -> None:
    destination = BucketDestination(**LOCAL)
    client(store).create_bucket(Bucket="looked-at")

    destination.check(replace(file, address=f"{store}/looked-at/months").place)

    assert "Contents" not in client(store).list_objects_v2(Bucket="looked-at")
    missing = replace(file, address=f"{store}/nothing")
    away = replace(file, address="http://127.0.0.1:1/ledger")
    assert check_reason(destination, missing) == "bucket_refused"
    assert check_reason(destination, away) == "unreachable"


def test_a_folder_of_an_sftp_server_is_found_without_a_file_in_it(
    sftp: Server, file: OutgoingFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    destination = SftpDestination(**LOCAL)

    destination.check(over(sftp, file).place)

    assert list((sftp.root / "in").iterdir()) == []
    assert check_reason(destination, over(sftp, file, "/nowhere")) == "sftp_refused"
    monkeypatch.setenv("EXPORT_SECRET_T", "wrong")
    assert check_reason(destination, over(sftp, file)) == "login_refused"


def test_a_webhook_is_reached_without_a_post(
    file: OutgoingFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    destination = WebhookDestination(public_url="https://ledger.test", **LOCAL)
    with receiving() as receiver:
        sent = replace(file, address=f"http://127.0.0.1:{receiver.port}/ready")
        of_another_form = check_reason(destination, sent)
        monkeypatch.setenv("EXPORT_SECRET_T", WEBHOOK_SECRET)
        destination.check(sent.place)
        posts = list(receiver.posts)

    assert of_another_form == "secret_invalid"
    assert posts == []
    away = replace(file, address="http://127.0.0.1:1/ready")
    assert check_reason(destination, away) == "unreachable"


def test_a_mail_server_is_reached_without_a_mail(file: OutgoingFile, settings: Settings) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    destination = MailDestination(sender="ledger@example.test")
    with mailbox() as server:
        settings.EMAIL_HOST, settings.EMAIL_PORT = server.server_address[:2]
        destination.check(file.place)
        mails = list(server.mails)
    settings.EMAIL_PORT = 1

    assert mails == []
    assert check_reason(destination, file) == "unreachable"
