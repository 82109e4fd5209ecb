"""The contract of destinations, held by the simulated one and by each real one on its server."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

import boto3
import pytest
from moto.server import ThreadedMotoServer
from pytest_django import Settings

from billing.adapters.destinations.bucket import BucketDestination
from billing.adapters.destinations.mail import MailDestination
from billing.adapters.destinations.sftp import SftpDestination
from billing.protocols import ExportDestination, OutgoingFile
from simulator.adapters.export_destination import SimulatedDestination
from tenants.domain.errors import SourceUnavailableError
from tests.billing.adapters.test_export_destinations import LOCAL, made, over, sftp_server
from tests.support.tenants.receivers import mailbox

CONTENT = b"month,amount\n2026-10,1.00\n"


@dataclass
class Place:
    """A destination, a file for it, one that it refuses, and how many copies it has."""

    destination: ExportDestination
    file: OutgoingFile
    refused: OutgoingFile
    copies: Callable[[], int]


def bucket(stack: ExitStack, folder: Path) -> Place:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    stack.callback(server.stop)
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    keys = {"aws_access_key_id": "user", "aws_secret_access_key": "a-secret"}
    client = boto3.client("s3", endpoint_url=url, region_name="us-east-1", **keys)
    name = f"contract-{uuid4().hex}"
    client.create_bucket(Bucket=name)
    file = replace(made(folder, CONTENT), address=f"{url}/{name}")
    return Place(
        BucketDestination(**LOCAL),
        file,
        replace(file, address=f"{url}/missing"),
        lambda: client.list_objects_v2(Bucket=name)["KeyCount"],
    )


def sftp(stack: ExitStack, folder: Path) -> Place:
    server = stack.enter_context(sftp_server(folder))
    file = over(server, made(folder, CONTENT))
    inside = server.root / "in"
    return Place(
        SftpDestination(**LOCAL),
        file,
        over(server, file, "/missing"),
        lambda: len(list(inside.iterdir())),
    )


def simulated(stack: ExitStack, folder: Path) -> Place:
    stack.callback(SimulatedDestination.purge)
    file = made(folder, CONTENT)
    SimulatedDestination.failing.add("refused.csv")
    return Place(
        SimulatedDestination(),
        file,
        replace(file, name="refused.csv"),
        lambda: len(SimulatedDestination.delivered),
    )


@pytest.fixture(params=[bucket, sftp, simulated])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Place]:
    monkeypatch.setenv("EXPORT_SECRET_T", "user:a-secret")
    with ExitStack() as stack:
        yield request.param(stack, tmp_path)


def test_the_same_file_again_is_there_once(place: Place) -> None:
    for _ in range(3):
        place.destination.deliver(place.file)

    assert place.copies() == 1


def test_what_is_refused_is_reported_and_leaves_nothing(place: Place) -> None:
    with pytest.raises(SourceUnavailableError) as refusal:
        place.destination.deliver(place.refused)

    assert refusal.value.reason
    assert place.copies() == 0


def test_a_mail_that_comes_again_has_the_same_id(tmp_path: Path, settings: Settings) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    file = replace(made(tmp_path, CONTENT), address="erp@acme.test")
    with mailbox() as server:
        settings.EMAIL_HOST, settings.EMAIL_PORT = server.server_address[:2]
        for _ in range(2):
            MailDestination(sender="ledger@example.test").deliver(file)

    assert len(server.mails) == 2
    assert all(str(file.file_id).encode() in mail for mail in server.mails)
