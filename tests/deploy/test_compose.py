"""docker-compose.yml, held against the settings, the URLs and the commands it names."""

import re
from urllib.parse import urlsplit

import click
import pytest
from annotated_types import Le
from celery.bin.celery import celery as celery_cli
from django.conf import settings
from django.core.management import get_commands, load_command_class
from django.urls import resolve

from config.admission_protocol import DRAIN_SECONDS, PROBE_PATHS
from config.celery import QUEUES, app
from config.env import SECRET_NAMES, Environment
from config.management.commands.serve_admission import GRACEFUL_SECONDS
from config.settings.base import settings_from
from embedded.postgres import DATABASE, OWNER
from metering.management.commands.watch_cluster import STOP_SECONDS
from tests.deploy.files import OURS, ROOT, compose, last, service, yaml_of

WEB_PORT = 8000
NOT_OURS = {"DJANGO_SETTINGS_MODULE"}
"""Variables of Django itself."""
REQUIRED = {
    "SECRET_KEY": "s" * 50,
    "API_TOKEN_PEPPER": "p" * 50,
    "DATABASE_URL": "postgresql://gpu_ledger_app:x@postgres/gpu_ledger",
    "REDIS_URL": "redis://valkey:6379/0",
}


def duration_seconds(text: str) -> int:
    match = re.fullmatch(r"(\d+)s", text)
    assert match is not None
    return int(match.group(1))


def test_every_part_of_a_deployment_is_there() -> None:
    assert set(compose()["services"]) == {"postgres", "valkey", "prometheus", "admission", *OURS}


def test_every_image_has_a_version() -> None:
    for name, found in compose()["services"].items():
        assert re.fullmatch(r"[a-z/-]+:(v?\d[\w.]*|local)", found["image"]), name
    assert service("postgres")["image"] == "postgres:18"


@pytest.mark.parametrize("name", sorted(compose()["services"]))
def test_every_container_is_hardened(name: str) -> None:
    found = service(name)

    assert found["read_only"] is True
    assert found["tmpfs"][0] == "/tmp"  # noqa: S108 - The container's own.
    assert found["cap_drop"] == ["ALL"]
    assert found["security_opt"] == ["no-new-privileges:true"]
    assert found["user"] == (
        "65534:65534" if name == "prometheus" else "${LEDGER_UID:-10001}:${LEDGER_GID:-10001}"
    )
    assert not found.get("privileged")
    assert all(port.startswith("127.0.0.1:") for port in found.get("ports", []))


@pytest.mark.parametrize("name", OURS)
def test_our_services_share_one_image_and_may_write_nothing(name: str) -> None:
    found = service(name)

    assert found["image"] == "gpu-ledger:local"
    assert found["build"] == {"context": ".", "dockerfile": "deploy/Dockerfile"}
    assert found["tmpfs"] == ["/tmp"]  # noqa: S108 - The container's own.
    writable = [volume for volume in found.get("volumes", []) if not volume.endswith(":ro")]
    assert writable == (["./deploy/secrets/clusters:/run/clusters"] if name == "renewer" else [])


def test_valkey_asks_for_a_password_and_keeps_nothing() -> None:
    made = (ROOT / "deploy" / "make-secrets").read_text("utf-8")

    assert service("valkey")["command"] == ["valkey-server", "/run/secrets/valkey_conf"]
    assert "volumes" not in service("valkey")
    assert "requirepass" in made
    assert "appendonly no" in made


@pytest.mark.parametrize("name", OURS)
def test_every_variable_is_one_the_service_reads(name: str) -> None:
    for variable in set(service(name)["environment"]) - NOT_OURS:
        if variable.endswith("_FILE"):
            assert variable.removesuffix("_FILE") in SECRET_NAMES
        else:
            assert variable in Environment.model_fields
            assert variable not in SECRET_NAMES, "Secrets come as files."


@pytest.mark.parametrize("name", [*OURS, "admission"])
def test_every_variable_of_the_environment_file_reaches_every_service(name: str) -> None:
    assert service(name)["env_file"] == [{"path": ".env", "required": False}]
    # `environment` wins over the file: what it sets has to come from there as well.
    for variable in set(service(name)["environment"]) & set(Environment.model_fields):
        assert service(name)["environment"][variable].startswith(f"${{{variable}:-"), variable


def test_credentials_of_clusters_reach_every_service_that_uses_them() -> None:
    mounted = "./deploy/secrets/clusters:/run/clusters:ro"
    holders = {name for name in OURS if mounted in service(name).get("volumes", [])}

    # web: preview_metering queries Prometheus; the others meter, enforce, evict and watch.
    assert holders == {"web", "worker", "short-worker", "watcher"}


@pytest.mark.parametrize("name", OURS)
def test_every_required_variable_is_given(name: str) -> None:
    given = {variable.removesuffix("_FILE") for variable in service(name)["environment"]}
    required = {n for n, field in Environment.model_fields.items() if field.is_required()}

    assert required <= given
    assert service(name)["environment"]["DJANGO_SETTINGS_MODULE"] == "config.settings.production"


def test_only_migrations_get_the_owners_database() -> None:
    holders = {n for n in OURS if "DATABASE_OWNER_URL_FILE" in service(n)["environment"]}

    assert holders == {"migrate"}
    assert "database_owner_url" not in service("web")["secrets"]


def test_every_secret_that_is_read_is_mounted_and_has_a_file() -> None:
    files = compose()["secrets"]
    for name, found in compose()["services"].items():
        words = [*map(str, found.get("environment", {}).values()), *found.get("command", [])]
        read = {w.removeprefix("/run/secrets/") for w in words if w.startswith("/run/secrets/")}

        assert read == set(found.get("secrets", [])), name
        assert read <= set(files), name
    for name, place in files.items():
        assert place == {"file": f"deploy/secrets/{name}"}


@pytest.mark.parametrize("name", ["migrate", "web", "renewer", "watcher"])
def test_every_command_of_manage_py_exists_and_takes_its_arguments(name: str) -> None:
    python, manage, command, *arguments = service(name)["command"]

    assert (python, manage) == ("python", "manage.py")
    loaded = load_command_class(get_commands()[command], command)
    parser = loaded.create_parser("manage.py", command)
    # Tests have one database; that the owner's alias follows from its variable is held below.
    known = [argument.replace("owner", "default") for argument in arguments]
    assert parser.parse_args(known) is not None


def test_migrations_run_on_the_owners_connection() -> None:
    owner = {"DATABASE_OWNER_URL": "postgresql://gpu_ledger_owner:x@postgres/gpu_ledger"}

    databases = settings_from(Environment.read(**REQUIRED, **owner))["DATABASES"]

    assert "--database owner" in " ".join(service("migrate")["command"])
    assert "DATABASE_OWNER_URL_FILE" in service("migrate")["environment"]
    assert set(databases) == {"default", "owner"}
    assert databases["owner"]["USER"] == OWNER


@pytest.mark.parametrize("name", ["worker", "short-worker", "beat"])
def test_every_command_of_celery_exists_and_takes_its_arguments(name: str) -> None:
    celery, flag, package, command, *arguments = service(name)["command"]

    assert (celery, flag, package, command) == ("celery", "-A", "config", name.rpartition("-")[2])
    found = celery_cli.commands[command]
    parent = click.Context(celery_cli, obj=None)
    parser = found.make_parser(parent)
    _, rest, _ = parser.parse_args(args=list(arguments))
    assert rest == []


@pytest.mark.parametrize("name", ["worker", "short-worker"])
def test_a_worker_is_given_time_to_finish_its_task(name: str) -> None:
    grace = duration_seconds(service(name)["stop_grace_period"])

    assert grace > app.conf.worker_soft_shutdown_timeout


def test_the_two_workers_serve_every_queue_between_them_each_under_a_name_of_its_own() -> None:
    served: list[str] = []
    for name in ("worker", "short-worker"):
        given = dict(part.lstrip("-").split("=") for part in service(name)["command"][4:])
        served += given["queues"].split(",")
        assert given["hostname"] == f"{name}@%h"
        assert f"--destination {name}@$$HOSTNAME" in service(name)["healthcheck"]["test"][1]

    assert sorted(served) == sorted(QUEUES)


def test_the_short_worker_has_a_process_for_each_kind_of_work_that_may_block() -> None:
    short = [name for name, route in app.conf.task_routes.items() if route["queue"] == "short"]

    assert f"--concurrency={len(short)}" in service("short-worker")["command"]


def test_a_watcher_is_given_time_to_write_what_has_come() -> None:
    assert duration_seconds(service("watcher")["stop_grace_period"]) > STOP_SECONDS


def test_the_endpoint_is_given_time_to_answer_who_waits() -> None:
    grace = duration_seconds(service("admission")["stop_grace_period"])
    reported = Environment.model_fields["ADMISSION_DEADLINE_SECONDS"].metadata
    (longest,) = [int(str(bound.le)) for bound in reported if isinstance(bound, Le)]

    assert DRAIN_SECONDS + longest < GRACEFUL_SECONDS < grace


def test_the_web_port_is_the_same_everywhere() -> None:
    scraped = yaml_of((ROOT / "deploy/prometheus/prometheus.yml").read_text("utf-8"))
    job = next(j for j in scraped["scrape_configs"] if j["job_name"] == "gpu-ledger")

    assert service("web")["command"][-1] == f"0.0.0.0:{WEB_PORT}"
    assert service("web")["ports"] == [f"127.0.0.1:{WEB_PORT}:{WEB_PORT}"]
    assert last("EXPOSE") == f"{WEB_PORT} {settings.METRICS_PORT}"
    assert job["static_configs"] == [{"targets": [f"web:{settings.METRICS_PORT}"]}]
    # Nobody outside the network of the services reaches the metrics.
    assert service("web")["command"][3] == "--metrics-address"
    # Django refuses requests for other hosts, the probe's too.
    assert service("web")["environment"]["ALLOWED_HOSTS"].split(",")[1:] == ["127.0.0.1"]


def test_nothing_listens_beyond_this_machine() -> None:
    for name, found in compose()["services"].items():
        for port in found.get("ports", []):
            assert port.startswith("127.0.0.1:"), name


def test_the_health_check_asks_an_endpoint_of_ours() -> None:
    program = service("web")["healthcheck"]["test"]
    url = urlsplit(program[-1])

    assert program[:4] == ["CMD", "python", "-m", "config.monitoring.probe"]
    assert url.port == WEB_PORT
    assert resolve(url.path).url_name == "readyz"
    assert service("postgres")["healthcheck"]["test"][-1] == DATABASE


def test_everybody_waits_for_the_migrations_and_they_for_the_database() -> None:
    healthy, done = "service_healthy", "service_completed_successfully"

    assert service("migrate")["depends_on"] == {"postgres": {"condition": healthy}}
    for name in ("web", "worker", "short-worker", "beat", "watcher"):
        assert service(name)["depends_on"] == {
            "migrate": {"condition": done},
            "valkey": {"condition": healthy},
        }


def test_every_mounted_file_is_in_the_repository_and_read_only() -> None:
    for name, found in compose()["services"].items():
        for volume in found.get("volumes", []):
            source, target, *mode = volume.split(":")
            if source.startswith("./"):
                assert (ROOT / source).exists()
                assert mode == ([] if name == "renewer" else ["ro"])
            else:
                assert source in compose()["volumes"], target


def test_prometheus_reads_the_file_that_is_mounted() -> None:
    found = service("prometheus")
    target = found["volumes"][1].split(":")[1]

    assert f"--config.file={target}" in found["command"]
    assert "--storage.tsdb.retention.time=400d" in found["command"]


def test_the_endpoint_is_probed_and_scraped_where_no_certificate_is_needed() -> None:
    found = service("admission")
    (bound,) = [one for one in found["command"] if one.startswith("--probe-bind=")]
    port = int(bound.rpartition(":")[2])
    scraped = yaml_of((ROOT / "deploy/prometheus/prometheus.yml").read_text("utf-8"))
    (job,) = [j for j in scraped["scrape_configs"] if j["job_name"] == "gpu-ledger-admission"]

    assert job["dns_sd_configs"] == [{"names": ["admission"], "type": "A", "port": port}]
    assert urlsplit(found["healthcheck"]["test"][-1]).port == port
    for path in (job["metrics_path"], urlsplit(found["healthcheck"]["test"][-1]).path):
        assert path in PROBE_PATHS
        assert resolve(path, urlconf="config.admission_urls").route == path.strip("/")
    # Nobody outside reaches it.
    assert not [one for one in found["ports"] if str(port) in one]
