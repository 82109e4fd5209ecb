"""One real PostgreSQL a session; every test sees it as the runtime role, which owns no table.

`db` runs a test in a transaction that is rolled back. `committed_db` gives a test its own copy of
the migrated database, for what must really commit: locks, workers, triggers at commit.
"""

import gc
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import suppress
from functools import cache
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.db import connections
from django.test.client import Client, ClientMixin
from django.utils.crypto import get_random_string
from hypothesis import HealthCheck, Phase
from hypothesis import settings as hypothesis_settings
from pytest_django import DjangoDbBlocker
from pytest_django.plugin import blocking_manager_key

from embedded.migrated import TEMPLATE, start_migrated
from embedded.migrated import superuser_url as superuser_url_of
from embedded.postgres import APP, OWNER, EmbeddedPostgres
from embedded.postgres_data import SUPERUSER
from tests.support.partitions import PARTITIONS
from tests.support.sampling import spread
from tests.support.shared_rows import COPIES, SHARED

EXAMPLES = 50
"""Of a property by default: after some 20 they differ little, and there are 175 properties."""
# How long an example takes depends on what else the machine does; it proves nothing. To look for a
# smaller one that fails takes minutes: CI prints the first, and the seed that finds it again.
hypothesis_settings.register_profile(
    "any-machine",
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=set(Phase) - ({Phase.shrink} if os.environ.get("CI") == "true" else set()),
)
hypothesis_settings.load_profile("any-machine")

if TYPE_CHECKING:
    from django.contrib.auth.models import User

ROOT = Path(__file__).resolve().parent.parent
TEST_DATABASE = "gpu_ledger_test"
GARBAGE_OBJECTS = 10_000
"""After which it is collected: at 700, Python's default, that is 2 % of what the tests take."""
DATABASE_NUMBERS = count(1)
MEMORY_MIN_BYTES = 8 * 1024**3
"""Of a few processes, each with its log and the copies of the tests that it runs."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Import test files in another order in each process, so that all share the rewriting.

    pytest rewrites the asserts of a file when it is imported first, and keeps the bytecode; in one
    order for all, each process would rewrite each file at the same moment as the others.
    """
    # What is imported and collected stays: to look for garbage among it takes seconds.
    gc.disable()
    worker = getattr(session.config, "workerinput", None)
    if worker is None or sys.dont_write_bytecode:
        return
    files = sorted(list_test_files(session.config))
    first = len(files) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    for file in files[first:] + files[:first]:
        name = ".".join(file.relative_to(ROOT).with_suffix("").parts)
        # What cannot be imported is reported when it is collected.
        with suppress(Exception, pytest.fail.Exception, pytest.skip.Exception):
            import_module(name)


def list_test_files(config: pytest.Config) -> set[Path]:
    """Return the files of tests below the arguments, without what is ignored."""
    folders = [
        config.invocation_params.dir / argument.partition("::")[0] for argument in config.args
    ]
    ignored = [config.invocation_params.dir / path for path in config.getoption("ignore") or ()]
    return {
        file
        for folder in folders
        for file in ([folder] if folder.is_file() else folder.rglob("test_*.py"))
        if file.is_relative_to(ROOT) and not any(file.is_relative_to(path) for path in ignored)
    }


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let each process begin with some of the longest tests."""
    processes: int = getattr(config, "workerinput", {}).get("workercount", 1)
    order = spread([seconds_of(item) for item in items], processes=processes)
    items[:] = [items[index] for index in order]


def seconds_of(item: pytest.Item) -> int:
    """Return how long a test says that it takes; 0 if it does not."""
    mark = item.get_closest_marker("seconds")
    return 0 if mark is None else int(mark.args[0])


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over modules and 10,000 collected tests: they stay anyway."""
    gc.freeze()
    gc.set_threshold(GARBAGE_OBJECTS, 20, 20)
    gc.enable()


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    """Start a server of our own, migrate a template as the owner, and copy it for the tests.

    Its folder is none of pytest's: each session of pytest closes the parent of all of them to
    others, and a root caller's server runs as another account.
    """
    with tempfile.TemporaryDirectory(prefix="gpu-ledger-tests-", dir=folder_in_memory()) as name:
        folder = Path(name)
        folder.chmod(0o755)
        server = EmbeddedPostgres(folder / "state", is_durable=False)
        start_migrated(server, checkout=ROOT, migrate=lambda: migrate(server, TEMPLATE))
        try:
            with psycopg.connect(server.url(role=OWNER, database=TEMPLATE)) as connection:
                for statement in PARTITIONS:
                    connection.execute(statement)
            with psycopg.connect(superuser_url_of(server), autocommit=True) as connection:
                # What tests roll back is pruned as it is read; a vacuum would only take their time.
                connection.execute("ALTER SYSTEM SET autovacuum = off")
                connection.execute("SELECT pg_reload_conf()")
                server.create_database(connection, TEST_DATABASE, template=TEMPLATE)
            yield server
        finally:
            server.stop()


def folder_in_memory() -> Path | None:
    """Return a file system in memory with room for the servers of all processes, or None.

    Hundreds of tests copy a database of 1,300 files, which takes a disk most of their time.
    """
    memory = Path("/dev/shm")  # noqa: S108 - Only its own account reads the folder made there.
    try:
        is_large = shutil.disk_usage(memory).free >= MEMORY_MIN_BYTES
    except OSError:
        return None
    return memory if is_large and os.access(memory, os.W_OK) else None


def migrate(server: EmbeddedPostgres, name: str) -> None:
    """Migrate a database in a process of its own, as a deployment does: as the owner."""
    command = ["-W", "ignore", "-m", "embedded.quick_migrate", "--database", "owner", "-v", "0"]
    subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        check=True,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "config.settings.test",
            "DATABASE_URL": server.url(database=name),
            "DATABASE_OWNER_URL": server.url(role=OWNER, database=name),
        },
    )


def use_database(server: EmbeddedPostgres, name: str) -> None:
    """Point Django's default connection of this thread at a database, as the runtime role."""
    connections["default"].close()
    parts = psycopg.conninfo.conninfo_to_dict(server.url(role=APP, database=name))
    target = {
        "NAME": name,
        "USER": parts["user"],
        "PASSWORD": parts["password"],
        "HOST": parts["host"],
        "PORT": str(parts["port"]),
    }
    settings.DATABASES["default"].update(target)
    connections["default"].settings_dict.update(target)


@pytest.fixture(scope="session")
def django_db_setup(postgres: EmbeddedPostgres) -> Iterator[None]:
    """Replace pytest-django's own database: ours is migrated by its owner, used by the app role."""
    use_database(postgres, TEST_DATABASE)
    connections["default"].check_constraints = _check_constraints  # type: ignore[method-assign]
    Client.force_login = _force_login  # type: ignore[method-assign]
    yield
    connections.close_all()


def _check_constraints(table_names: object = None) -> None:  # noqa: ARG001 - Django's signature.
    """Check at the end of a test what a commit would, but for audit entries of builders' rows."""
    with connections["default"].cursor() as cursor:
        cursor.execute(f"SET CONSTRAINTS {_constraints_of_commit()} IMMEDIATE")


@cache
def _constraints_of_commit() -> str:
    with connections["default"].cursor() as cursor:
        cursor.execute(
            "SELECT string_agg(quote_ident(conname), ', ') FROM pg_constraint"
            " WHERE condeferrable AND conname NOT LIKE '%%is_audited'"
        )
        (names,) = cursor.fetchone()
    return str(names)


def _force_login(self: ClientMixin, user: "User", backend: str | None = None) -> None:
    """Begin a person's session by one statement, where Django's test client takes thirteen."""
    data = {
        SESSION_KEY: str(user.pk),
        BACKEND_SESSION_KEY: backend or settings.AUTHENTICATION_BACKENDS[0],
        HASH_SESSION_KEY: user.get_session_auth_hash(),
    }
    store = import_module(settings.SESSION_ENGINE).SessionStore()
    store.update(data)
    store._session_key = get_random_string(32)  # noqa: SLF001 - Django would ask whether it is taken.
    store.create_model_instance(data).save(force_insert=True)
    self.cookies[settings.SESSION_COOKIE_NAME] = store.session_key  # type: ignore[attr-defined]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Roll back the rows of tests before, if this one does not share them."""
    SHARED.close_unwanted(item, blocker=item.config.stash[blocking_manager_key])


@pytest.fixture
def shared_copies(
    request: pytest.FixtureRequest,
    django_db_setup: None,  # noqa: ARG001 - The database comes first.
    django_db_blocker: DjangoDbBlocker,
) -> None:
    """Make what `shared_rows` fixtures of the test make, before the transaction of the test."""
    with django_db_blocker.unblock():
        request.node.stash[COPIES] = SHARED.copies_for(request.node)


@pytest.fixture
def _django_db_helper(shared_copies: None, _django_db_helper: None) -> None:
    """Begin the transaction of a test within that of the rows it shares."""


@pytest.fixture(autouse=True)
def queued_mails() -> Iterator[None]:
    """Wait for the mails that a test has queued, so that none reaches the next test's outbox."""
    yield
    if account_mail := sys.modules.get("tenants.adapters.mail"):
        wait([account_mail._POST.submit(lambda: None)], timeout=10)  # noqa: SLF001 - One thread: the queue's end.


@pytest.fixture(scope="session", autouse=True)
def quiet_end() -> Iterator[None]:
    """End the thread of wake-ups with the session, as a process does, while there is a log."""
    yield
    from tenants.services.wakeups import PUBLISHER  # noqa: PLC0415 - Settings are ready by now.

    PUBLISHER.close()


@pytest.fixture
def database_template() -> str:
    """Return the name of the database that `committed_db` copies; folders may have their own."""
    return TEMPLATE


@pytest.fixture
def committed_db(
    postgres: EmbeddedPostgres,
    database_template: str,
    django_db_setup: None,  # noqa: ARG001 - The template comes first.
    django_db_blocker: pytest.FixtureRequest,
    request: pytest.FixtureRequest,
) -> Iterator[str]:
    """Give the test a database of its own in which it commits; return its name."""
    asked = "".join(c if c.isalnum() else "_" for c in request.node.name.lower())[:40]
    # No name is used twice: a pooler that failed to reach one which is gone turns clients away.
    name = f"committed_{next(DATABASE_NUMBERS)}_{asked}"
    with psycopg.connect(superuser_url_of(postgres), autocommit=True) as connection:
        postgres.create_database(connection, name, template=database_template)
    use_database(postgres, name)
    with django_db_blocker.unblock():  # type: ignore[attr-defined]
        yield name
        connections.close_all()
    use_database(postgres, TEST_DATABASE)
    with psycopg.connect(superuser_url_of(postgres), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.fixture
def superuser_url(postgres: EmbeddedPostgres, committed_db: str) -> str:
    """Return a superuser's URL of this test's own database, to prove what even it cannot do."""
    return postgres.url(role=SUPERUSER, database=committed_db)
