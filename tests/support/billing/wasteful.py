"""Waste findings with prices beside them."""

from django.contrib.auth.models import User

from metering.models import WasteFinding
from tests.support.billing.ledger import assign, make_book, make_price
from tests.support.builders import AT, make_cluster
from tests.support.cast import Cast, make_cast
from tests.support.metering.waste_world import DAY, HOUR, WasteWorld


def find(world: WasteWorld, name: str = "trainer-0", **fields: object) -> WasteFinding:
    """Return an idle whole H100, held for two hours."""
    defaults: dict[str, object] = {
        "owner": "carol",
        "namespace": "llm",
        "pod_name": name,
        "pod_uid": f"uid-{name}",
        "resource": "nvidia.com/gpu",
        "rule": "idle",
        "from_at": DAY,
        "until_at": DAY + 2 * HOUR,
        "units": 1,
        "size": "large",
        "price_group": "H100/whole",
        "held_unit_seconds": 7200,
        "created_at": AT,
    }
    given = {**defaults, **fields}
    given.setdefault("wasted_unit_seconds", given["held_unit_seconds"])
    return WasteFinding.objects.create(
        cluster=world.cluster,
        organization=world.organization,
        project=world.project,
        **given,
    )


def make_wasteful_cast() -> Cast:
    """Return everybody, let in as staff: Acme wastes one H100 and eight, Umbrella one, at 3.60."""
    people = make_cast()
    User.objects.update(is_staff=True)
    cluster = make_cluster()
    book = make_book()
    make_price(book, "3.60", size="large")
    for organization, project, name, units in (
        (people.acme, people.llm, "trainer-0", 1),
        (people.acme, people.vision, "sleeper-0", 8),
        (people.umbrella, people.virus, "hive-0", 1),
    ):
        if units != 8:
            assign(organization, book)
        find(
            WasteWorld(organization, project, cluster),
            name,
            units=units,
            held_unit_seconds=3600 * units,
        )
    return people
