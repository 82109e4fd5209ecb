"""Admission, live use and limits against a plain model, over random sequences of what happens."""

from datetime import datetime, timedelta
from typing import ClassVar

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from metering.domain.catalogue.units import GPUSize
from metering.models import PodAllocation, QueuedPod
from quotas.domain.admission.values import Demand
from quotas.models import LimitScope, QuotaCounter, QuotaGrant, QuotaLimit, Reservation
from quotas.services.admission import live_use
from quotas.services.admission.live_use import repair_counters
from quotas.services.limits.changes import lock_counters, open_counter
from tenants.domain.actors import system_actor
from tenants.models import Cluster, NamespaceBinding, Organization, Project
from tests.support.builders import AT, bind, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.admitting import ask, beat, looks_differ, sweep
from tests.support.quotas.reservation_model import Bound, Limit, Model, Row, Selector

ACTOR = system_actor("tests")
STEPS = 60
PLACES = [("hopper", "llm"), ("hopper", "vision"), ("hopper", "virus"), ("ampere", "llm")]
PROJECTS = {"llm": "acme", "vision": "acme", "virus": "umbrella"}
SIZES = st.sampled_from(["small", "large"])
GROUPS = st.sampled_from([(), ("A100",), ("H100",), ("A100", "H100")])
PEOPLE = st.sampled_from(["", "bob", "carol"])
HOLDERS = st.sampled_from(
    [
        ("acme", None, None),
        ("acme", "llm", None),
        ("acme", "llm", "bob"),
        ("acme", "vision", None),
        ("acme", "vision", "carol"),
        ("umbrella", None, None),
    ]
)
CAPS = st.one_of(st.none(), st.integers(0, 6))
PICK = st.integers(0, 1_000)
Asked = tuple[str, int, tuple[str, ...]]
"""Size, units and model groups."""
DEMANDS = st.lists(st.tuples(SIZES, st.integers(1, 3), GROUPS), min_size=1, max_size=2)


class ReservationMachine(RuleBasedStateMachine):
    """Does to the ledger what it does to the model; after every step both agree."""

    cast: ClassVar[Cast]
    clusters: ClassVar[dict[str, Cluster]]
    steps: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.savepoint = transaction.savepoint()
        self.now: datetime = AT
        self.number = 0
        self.limits: list[QuotaLimit] = []
        self.asked: dict[str, tuple[dict[tuple[str, str], Row], bool]] = {}
        self.model = Model(
            bindings={(cluster, name): (PROJECTS[name], name, "") for cluster, name in PLACES}
        )

    # Limits.

    @rule(
        holder=HOLDERS,
        size=SIZES,
        group=st.sampled_from(["", "H100"]),
        cluster=st.sampled_from(["", "", "hopper"]),
        units=CAPS,
        burst=st.integers(0, 2),
    )
    def set_limit(self, holder: tuple[str, str | None, str | None], size: str, group: str,
                  cluster: str, units: int | None, burst: int) -> None:  # fmt: skip
        selector = (*holder, size, group, cluster)
        for limit, row in zip(self.model.limits, self.limits, strict=True):
            if limit.selector == selector:
                limit.units, limit.burst = units, burst
                row.limit_units, row.burst_units = units, burst
                row.save()
                return
        self.model.limits.append(Limit(selector, units, burst))
        self.limits.append(self.make_limit(selector, units, burst))

    def make_limit(self, selector: Selector, units: int | None, burst: int) -> QuotaLimit:
        organization, project, user, size, group, cluster = selector
        scope = LimitScope.ORGANIZATION if project is None else LimitScope.PROJECT
        limit = QuotaLimit.objects.create(
            scope=scope if user is None else LimitScope.USER,
            organization=Organization.objects.get(slug=organization),
            project=None if project is None else Project.objects.get(slug=project),
            user=None if user is None else User.objects.get(username=user),
            size=size,
            model_group=group,
            cluster=self.clusters.get(cluster),
            limit_units=units,
            burst_units=burst,
            created_at=AT,
            changed_at=AT,
        )
        open_counter(limit=limit, at=self.now)
        return limit

    @precondition(lambda self: any(not limit.grants for limit in self.model.limits))
    @rule(pick=PICK)
    def remove_limit(self, pick: int) -> None:
        bare = [n for n, limit in enumerate(self.model.limits) if not limit.grants]
        number = bare[pick % len(bare)]
        del self.model.limits[number]
        row = self.limits.pop(number)
        lock_counters(organization_id=row.organization_id)
        row.delete()

    @precondition(lambda self: self.limits)
    @rule(pick=PICK, units=st.sampled_from([-2, -1, 1, 3]), seconds=st.integers(30, 300))
    def grant(self, pick: int, units: int, seconds: int) -> None:
        end = self.now + timedelta(seconds=seconds)
        self.model.limits[pick % len(self.limits)].grants.append((units, end))
        QuotaGrant.objects.create(
            limit=self.limits[pick % len(self.limits)],
            units=units,
            valid=DateTimeTZRange(self.now, end),
            reason="manual",
            created_at=self.now,
        )

    # Pods that ask.

    @rule(
        place=st.sampled_from([*PLACES, ("ampere", "nobodys")]),
        owner=PEOPLE,
        demands=DEMANDS,
        burst=st.sampled_from([False, False, True]),
        dry=st.sampled_from([False, False, True]),
    )
    def admit(self, place: tuple[str, str], owner: str, demands: list[Asked],
              *, burst: bool, dry: bool) -> None:  # fmt: skip
        self.number += 1
        uid = f"pod-{self.number}"
        rows = {
            (uid, f"r/{index}"): Row(*place, "", "", owner, "", size, units, groups, burst)
            for index, (size, units, groups) in enumerate(demands)
        }
        self.ask(uid, rows, dry=dry)
        if not dry:
            self.asked[uid] = (rows, burst)

    @precondition(lambda self: self.asked)
    @rule(pick=PICK)
    def replay(self, pick: int) -> None:
        uid = sorted(self.asked)[pick % len(self.asked)]
        self.ask(uid, self.asked[uid][0], dry=False)

    def ask(self, uid: str, rows: dict[tuple[str, str], Row], *, dry: bool) -> None:
        first = next(iter(rows.values()))
        verdict = ask(
            self.clusters[first.cluster],
            first.namespace,
            uid,
            *(
                Demand(resource, GPUSize(row.size), row.units, row.groups)
                for (_, resource), row in rows.items()
            ),
            at=self.now,
            owner=first.owner,
            is_burst=first.burst,
            is_dry_run=dry,
        )
        assert verdict.code == self.model.admit(rows, self.now, dry=dry)

    # What the watch sees.

    @precondition(lambda self: any(self.unseen()))
    @rule(pick=PICK)
    def see(self, pick: int) -> None:
        uids = list(self.unseen())
        uid = uids[pick % len(uids)]
        row = next(row for key, row in self.model.rows.items() if key[0] == uid)
        self.model.seen[uid] = False
        QueuedPod.objects.create(
            cluster=self.clusters[row.cluster],
            pod_uid=uid,
            namespace=row.namespace,
            pod_name=uid,
            created_at=self.now,
        )

    def unseen(self) -> list[str]:
        return [uid for uid in self.model.waiting() if uid not in self.model.seen]

    @precondition(lambda self: any(True for _ in self.model.waiting()))
    @rule(pick=PICK, size=SIZES, group=st.sampled_from(["A100", "H100"]))
    def start(self, pick: int, size: str, group: str) -> None:
        uids = list(self.model.waiting())
        uid = uids[pick % len(uids)]
        for key, row in list(self.model.rows.items()):
            if key[0] == uid:
                self.bound(key, row, size, group)

    @rule(place=st.sampled_from(PLACES), owner=PEOPLE, size=SIZES, burst=st.booleans())
    def bypass(self, place: tuple[str, str], owner: str, size: str, *, burst: bool) -> None:
        self.number += 1
        row = Row(*place, "", "", owner, "", size, 2, (), burst)
        self.bound((f"pod-{self.number}", "r/0"), row, size, "H100")

    def bound(self, key: tuple[str, str], row: Row, size: str, group: str) -> None:
        self.model.bound[key] = Bound(
            row.cluster, row.namespace, row.owner, size, row.units, group, row.burst
        )
        PodAllocation.objects.create(
            cluster=self.clusters[row.cluster],
            pod_uid=key[0],
            resource=key[1],
            namespace=row.namespace,
            pod_name=key[0],
            node="node-1",
            owner=row.owner,
            priority_class="gpu-ledger-burst" if row.burst else "gpu-ledger-normal",
            units=row.units,
            size=size,
            price_group=f"{group}/whole",
            catalogue_version=1,
            begin_at=AT,
            last_seen_at=self.now,
        )

    @precondition(lambda self: self.model.bound)
    @rule(pick=PICK)
    def end(self, pick: int) -> None:
        key = sorted(self.model.bound)[pick % len(self.model.bound)]
        self.model.bound[key].is_ended = True
        PodAllocation.objects.filter(pod_uid=key[0], resource=key[1]).update(end_at=self.now)

    @precondition(lambda self: self.model.seen)
    @rule(pick=PICK)
    def go(self, pick: int) -> None:
        uid = sorted(self.model.seen)[pick % len(self.model.seen)]
        self.model.seen[uid] = True
        QueuedPod.objects.filter(pod_uid=uid).update(gone_at=self.now)

    # Time, tenants and sweeps.

    @rule(seconds=st.sampled_from([1, 30, 120]), beats=st.booleans())
    def wait(self, seconds: int, *, beats: bool) -> None:
        self.now += timedelta(seconds=seconds)
        if beats:
            self.heartbeat("hopper")

    @rule(name=st.sampled_from(["hopper", "ampere"]))
    def heartbeat(self, name: str) -> None:
        self.model.healthy[name] = self.now
        beat(self.clusters[name], self.now)

    @rule(place=st.sampled_from(PLACES), project=st.sampled_from(sorted(PROJECTS)), owner=PEOPLE)
    def move(self, place: tuple[str, str], project: str, owner: str) -> None:
        self.model.bindings[place] = (PROJECTS[project], project, owner)
        NamespaceBinding.objects.filter(cluster__slug=place[0], namespace=place[1]).update(
            project=Project.objects.get(slug=project),
            default_owner=User.objects.filter(username=owner).first(),
        )

    @rule(keys_per_turn=st.sampled_from([1, 2, 150]))
    def sweep(self, keys_per_turn: int) -> None:
        assert looks_differ(self.now) == []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(live_use, "KEYS_PER_TURN", keys_per_turn)
            sweep(self.now)
        self.model.sweep(self.now)
        assert sweep(self.now).touched == 0

    @rule()
    def repair(self) -> None:
        assert repair_counters(actor=ACTOR, at=self.now) == ()

    @invariant()
    def counters_are_the_model_at_every_level(self) -> None:
        type(self).steps += 1
        counters = {row.pk: row for row in QuotaCounter.objects.all()}
        for limit, row in zip(self.model.limits, self.limits, strict=True):
            found = counters[row.pk]
            assert self.model.counted(limit) == (
                found.held_units,
                found.reserved_units,
                found.burst_held_units,
                found.burst_reserved_units,
            ), limit
        live = Reservation.objects.exclude(state="released").values_list("pod_uid", "resource")
        reported = {key for key, row in self.model.rows.items() if row.state != "released"}
        assert set(live) == reported

    def teardown(self) -> None:
        transaction.set_rollback(False)
        transaction.savepoint_rollback(self.savepoint)


@pytest.mark.parametrize("examples", [4, pytest.param(40, marks=pytest.mark.soak)])
@pytest.mark.django_db
def test_counters_agree_with_a_plain_model_after_every_step(cast: Cast, examples: int) -> None:
    ReservationMachine.cast = cast
    ReservationMachine.clusters = {
        name: make_cluster(name, is_watched=True) for name in ("hopper", "ampere")
    }
    projects = {"llm": cast.llm, "vision": cast.vision, "virus": cast.virus}
    for cluster, name in PLACES:
        bind(ReservationMachine.clusters[cluster], name, projects[name])
    ReservationMachine.steps = 0

    run_state_machine_as_test(
        ReservationMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )

    assert ReservationMachine.steps >= 50 * examples
