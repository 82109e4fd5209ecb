"""`manage.py webhook_secret`: what is printed, what is kept, and the configuration with it."""

from io import StringIO
from pathlib import Path

import pytest
import yaml
from django.core.management import call_command
from django.core.management.base import CommandError

from quotas.domain.admission.secrets import SECRET, is_one_of
from quotas.selectors.admission.secrets import webhook_digests
from tests.support.builders import make_cluster

pytestmark = pytest.mark.django_db
PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


def added() -> str:
    out = StringIO()
    call_command("webhook_secret", "add", "--cluster=hopper", stdout=out)
    return out.getvalue().strip()


def in_force(secret: str) -> bool:
    return is_one_of(secret, webhook_digests().get("hopper", ()))


def test_a_secret_is_rotated_and_ended() -> None:
    make_cluster("hopper")
    first, second = added(), added()

    assert SECRET.fullmatch(first) is not None
    assert first != second
    assert (in_force(first), in_force(second)) == (True, True)
    call_command("webhook_secret", "end-old", "--cluster=hopper", stderr=StringIO())
    assert (in_force(first), in_force(second)) == (False, True)
    call_command("webhook_secret", "end-all", "--cluster=hopper", stderr=StringIO())
    assert webhook_digests() == {}


def test_an_unknown_cluster_is_refused() -> None:
    with pytest.raises(CommandError, match=r"No cluster is called hopper\."):
        added()


def test_every_address_of_the_configuration_has_the_secret(tmp_path: Path) -> None:
    make_cluster("hopper")
    (tmp_path / "ca.crt").write_text(PEM)
    (tmp_path / "secret").write_text(f"{added()}\n")
    secret = (tmp_path / "secret").read_text().strip()
    given = ("--cluster=hopper", f"--ca-file={tmp_path / 'ca.crt'}")
    where = ("--url=https://gpu.example.test:8444", f"--secret-file={tmp_path / 'secret'}")
    out = StringIO()

    call_command("webhook_manifests", *given, *where, stdout=out)

    webhooks = [one for each in yaml.safe_load_all(out.getvalue()) for one in each["webhooks"]]
    assert [one["clientConfig"]["url"] for one in webhooks] == [
        f"https://gpu.example.test:8444/secret/{secret}{path}"
        for path in (
            *("/stamp/hopper", "/stamp/hopper"),
            *("/admit/hopper/pods", "/admit/hopper/pods", "/warn/hopper"),
        )
    ]
    (tmp_path / "secret").write_text("short")
    with pytest.raises(CommandError, match="holds no secret"):
        call_command("webhook_manifests", *given, *where, stdout=out)
