"""What is let in, what is refused, and that every number of a refusal is reported."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from metering.domain.catalogue.units import GPUSize
from quotas.domain.admission.values import Blocker, VerdictCode
from quotas.models import (
    AdmissionRefusal,
    GrantReason,
    QuotaGrant,
    QuotaLimit,
    QuotaSuspension,
    Reservation,
)
from tenants.models import Cluster
from tests.support.builders import AT, bind, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.admitting import TTL_SECONDS, ask, counted, demand
from tests.support.quotas.builders import make_limit
from tests.support.shared_rows import shared_rows

HOUR = timedelta(hours=1)


@shared_rows
def cluster(cast: Cast) -> Cluster:
    cluster = make_cluster("hopper")
    bind(cluster, "llm", cast.llm, default_owner=cast.carol)
    bind(cluster, "vision", cast.vision)
    return cluster


def grant_units(limit: QuotaLimit, units: int) -> None:
    QuotaGrant.objects.create(
        limit=limit,
        units=units,
        valid=DateTimeTZRange(AT, AT + HOUR),
        reason=GrantReason.MANUAL,
        created_at=AT,
    )


def test_a_pod_that_fits_is_let_in_and_counted_at_every_level(cast: Cast, cluster: Cluster) -> None:
    limits = [
        make_limit(cast.acme, units=8),
        make_limit(cast.acme, cast.llm, units=4),
        make_limit(cast.acme, cast.llm, cast.bob, units=2),
    ]

    verdict = ask(cluster, "llm", "pod-1", demand(2), owner="bob", controller="Job/train")

    assert verdict.code is VerdictCode.ALLOWED
    assert [counted(limit) for limit in limits] == [(0, 2, 0, 0)] * 3
    row = Reservation.objects.get()
    assert (row.organization, row.project, row.owner, row.username) == (
        cast.acme,
        cast.llm,
        "bob",
        "bob",
    )
    assert (row.size, row.units, row.model_groups) == ("large", 2, ["H100"])
    assert (row.state, row.origin, row.controller) == ("reserved", "admission", "Job/train")
    assert (row.admitted_at, row.expires_at) == (AT, AT + timedelta(seconds=TTL_SECONDS))


@pytest.mark.parametrize(
    ("full", "scope", "holder"),
    [(0, "organization", "acme"), (1, "project", "llm"), (2, "user", "bob")],
)
def test_a_refusal_names_the_limit_that_is_full_and_every_number(
    cast: Cast, cluster: Cluster, full: int, scope: str, holder: str
) -> None:
    units = [9, 9, 9]
    units[full] = 2
    limits = [
        make_limit(cast.acme, units=units[0]),
        make_limit(cast.acme, cast.llm, units=units[1]),
        make_limit(cast.acme, cast.llm, cast.bob, units=units[2]),
    ]
    ask(cluster, "llm", "pod-1", owner="bob")

    verdict = ask(cluster, "llm", "pod-2", demand(2), owner="bob")

    assert verdict.code is VerdictCode.LIMIT_REACHED
    assert verdict.blocker == Blocker(
        scope=scope,
        holder=holder,
        size=GPUSize.LARGE,
        limit_units=2,
        used_units=0,
        reserved_units=1,
        asked_units=2,
    )
    assert [counted(limit) for limit in limits] == [(0, 1, 0, 0)] * 3
    assert list(Reservation.objects.values_list("pod_uid", flat=True)) == ["pod-1"]


def test_all_demands_of_a_pod_are_let_in_or_none(cast: Cast, cluster: Cluster) -> None:
    large = make_limit(cast.acme, units=8)
    small = make_limit(cast.acme, units=1, size="small")
    shares = demand(2, size="small", groups=("A100",), resource="nvidia.com/mig-1g.10gb")

    refused = ask(cluster, "llm", "pod-1", demand(4), shares)
    nothing = [counted(large), counted(small)]
    allowed = ask(cluster, "llm", "pod-1", demand(4), replace(shares, units=1))

    assert refused.blocker is not None
    assert (refused.code, refused.blocker.size) == (VerdictCode.LIMIT_REACHED, GPUSize.SMALL)
    assert nothing == [(0, 0, 0, 0)] * 2
    assert allowed.code is VerdictCode.ALLOWED
    assert [counted(large), counted(small)] == [(0, 4, 0, 0), (0, 1, 0, 0)]


def test_two_demands_of_one_size_are_added_up(cast: Cast, cluster: Cluster) -> None:
    limit = make_limit(cast.acme, units=3)
    claim = demand(2, resource="claim/gpu.nvidia.com")

    refused = ask(cluster, "llm", "pod-1", demand(2), claim)
    allowed = ask(cluster, "llm", "pod-2", demand(1), claim)

    assert refused.blocker is not None
    assert refused.blocker.asked_units == 4
    assert allowed.is_allowed
    assert counted(limit) == (0, 3, 0, 0)


def test_a_pod_without_an_owner_counts_for_the_default_owner(cast: Cast, cluster: Cluster) -> None:
    limit = make_limit(cast.acme, cast.llm, cast.carol, units=1)

    allowed, refused = ask(cluster, uid="pod-1"), ask(cluster, uid="pod-2")

    assert (allowed.is_allowed, refused.is_allowed) == (True, False)
    assert counted(limit) == (0, 1, 0, 0)
    assert Reservation.objects.values_list("owner", "username").get() == ("", "carol")


def test_a_limit_of_a_model_counts_every_pod_that_may_land_on_it(
    cast: Cast, cluster: Cluster
) -> None:
    both = make_limit(cast.acme, units=8)
    h100 = QuotaLimit.objects.create(**selector_fields(both, model_group="H100", limit_units=2))

    ask(cluster, "llm", "pod-1", demand(groups=("A100", "H100")))
    ask(cluster, "llm", "pod-2", demand(groups=()))
    ask(cluster, "llm", "pod-3", demand(groups=("A100",)))
    refused = ask(cluster, "llm", "pod-4", demand(groups=("H100",)))

    assert (counted(both), counted(h100)) == ((0, 3, 0, 0), (0, 2, 0, 0))
    assert refused.blocker is not None
    assert (refused.blocker.model_group, refused.blocker.limit_units) == ("H100", 2)


def selector_fields(limit: QuotaLimit, **fields: object) -> dict[str, object]:
    base = {
        "scope": limit.scope,
        "organization": limit.organization,
        "project": limit.project,
        "user": limit.user,
        "size": limit.size,
        "created_at": AT,
        "changed_at": AT,
    }
    return {**base, **fields}


def test_a_limit_of_a_cluster_counts_that_cluster_only(cast: Cast, cluster: Cluster) -> None:
    ampere = make_cluster("ampere")
    bind(ampere, "llm", cast.llm)
    wide = make_limit(cast.acme, units=8)
    narrow = QuotaLimit.objects.create(**selector_fields(wide, cluster=ampere, limit_units=1))

    codes = [ask(ampere, uid="a-1").code, ask(ampere, uid="a-2").code, ask(cluster, uid="h-1").code]

    assert codes == ["allowed", "limit_reached", "allowed"]
    assert (counted(wide), counted(narrow)) == ((0, 2, 0, 0), (0, 1, 0, 0))


def test_a_model_that_no_limit_covers_is_not_granted(cast: Cast, cluster: Cluster) -> None:
    make_limit(cast.acme, units=8)
    QuotaLimit.objects.update(model_group="H100")

    pinned = ask(cluster, "llm", "pod-1", demand(groups=("H100",)))
    anywhere = ask(cluster, "llm", "pod-2", demand(groups=("A100", "H100")))

    assert pinned.is_allowed
    assert anywhere.code is VerdictCode.NOTHING_GRANTED
    assert anywhere.blocker is not None
    assert (anywhere.blocker.model_group, anywhere.blocker.limit_units) == ("A100", 0)


def test_a_governed_tenant_without_a_limit_of_the_size_gets_none(
    cast: Cast, cluster: Cluster
) -> None:
    make_limit(cast.acme, cast.llm, units=8, size="small")

    governed, other = ask(cluster, "llm"), ask(cluster, "vision", "pod-2")

    assert governed.code is VerdictCode.NOTHING_GRANTED
    assert governed.blocker is not None
    assert (governed.blocker.scope, governed.blocker.holder) == ("project", "llm")
    assert other.code is VerdictCode.ALLOWED_UNGOVERNED
    assert Reservation.objects.get().project == cast.vision


def test_an_unlimited_limit_binds_nobody_and_zero_binds_all(cast: Cast, cluster: Cluster) -> None:
    organization = make_limit(cast.acme, units=0)
    zero = ask(cluster, uid="pod-1")
    QuotaLimit.objects.update(limit_units=None)

    unlimited = ask(cluster, "llm", "pod-2", demand(1_000))

    assert (zero.code, unlimited.code) == (VerdictCode.LIMIT_REACHED, VerdictCode.ALLOWED)
    assert counted(organization) == (0, 1_000, 0, 0)


def test_grants_count_while_they_are_in_force(cast: Cast, cluster: Cluster) -> None:
    limit = make_limit(cast.acme, units=1)
    grant_units(limit, 1)
    asked = demand(2)

    before = ask(cluster, "llm", "pod-1", asked, at=AT - HOUR)
    during = ask(cluster, "llm", "pod-2", asked, at=AT)
    after = ask(cluster, "llm", "pod-3", asked, at=AT + HOUR)

    assert [v.is_allowed for v in (before, during, after)] == [False, True, False]
    assert during.nearly_full[0].limit_units == 2
    assert after.blocker is not None
    assert after.blocker.limit_units == 1


def test_a_loan_that_takes_more_than_there_is_leaves_zero(cast: Cast, cluster: Cluster) -> None:
    grant_units(make_limit(cast.acme, units=1), -3)

    refused = ask(cluster)

    assert refused.blocker is not None
    assert refused.blocker.limit_units == 0


def test_preemptible_pods_count_as_burst_only(cast: Cast, cluster: Cluster) -> None:
    limit = make_limit(cast.acme, units=1)
    none = ask(cluster, uid="b-0", is_burst=True)
    QuotaLimit.objects.update(burst_units=1)

    codes = [
        ask(cluster, uid="n-1").code,
        ask(cluster, uid="b-1", is_burst=True).code,
        ask(cluster, uid="b-2", is_burst=True).code,
    ]

    assert none.blocker is not None
    assert (none.blocker.limit_units, none.blocker.is_burst) == (0, True)
    assert codes == ["allowed", "allowed", "limit_reached"]
    assert counted(limit) == (0, 1, 0, 1)


def test_an_allowance_that_is_used_up_refuses_until_the_next_month(
    cast: Cast, cluster: Cluster
) -> None:
    limit = make_limit(cast.acme, units=8)
    QuotaLimit.objects.update(monthly_unit_hours=2)
    assert ask(cluster, uid="pod-1").is_allowed
    limit.counter.month = AT.date().replace(day=1)
    limit.counter.month_unit_seconds = 2 * 3_600
    limit.counter.save()

    refused = ask(cluster, uid="pod-2")
    later = ask(cluster, uid="pod-3", at=AT + timedelta(days=31))

    assert refused.code is VerdictCode.ALLOWANCE_USED
    assert refused.blocker is not None
    assert (refused.blocker.limit_units, refused.blocker.used_units) == (2, 2)
    assert later.is_allowed


@pytest.mark.parametrize("whole", [True, False])
def test_a_suspended_tenant_starts_nothing_and_is_reported_why(
    cast: Cast, cluster: Cluster, *, whole: bool
) -> None:
    limit = make_limit(cast.acme, units=8)
    assert ask(cluster, uid="pod-1").is_allowed
    QuotaSuspension.objects.create(
        organization=cast.acme,
        project=None if whole else cast.llm,
        reason="The budget is used up.",
        begin_at=AT,
    )

    refused, again = ask(cluster, uid="pod-2"), ask(cluster, uid="pod-1")
    other = ask(cluster, "vision", "pod-3")

    assert (refused.code, refused.reason) == (VerdictCode.SUSPENDED, "The budget is used up.")
    assert again.code is VerdictCode.ALLOWED_BEFORE
    assert other.is_allowed is not whole
    assert counted(limit) == (0, 1 if whole else 2, 0, 0)


def test_a_namespace_of_nobody_is_refused_unless_the_platform_lets_it_in(cluster: Cluster) -> None:
    denied = ask(cluster, "nobodys")
    allowed = ask(cluster, "nobodys", unbound="allow")

    assert denied.code is VerdictCode.NAMESPACE_UNBOUND
    assert allowed.code is VerdictCode.ALLOWED_UNGOVERNED
    assert not Reservation.objects.exists()
    assert AdmissionRefusal.objects.values_list("code", "organization", "units").get() == (  # type: ignore[comparison-overlap] # Nobody's.
        "namespace_unbound",
        None,
        1,
    )


def test_asking_again_counts_nothing_again(cast: Cast, cluster: Cluster) -> None:
    limit = make_limit(cast.acme, units=1)

    codes = [ask(cluster).code, ask(cluster).code]

    assert codes == ["allowed", "allowed_before"]
    assert counted(limit) == (0, 1, 0, 0)


def test_a_dry_run_answers_the_same_and_writes_nothing(cast: Cast, cluster: Cluster) -> None:
    limit = make_limit(cast.acme, units=1)

    free = ask(cluster, uid="pod-1", is_dry_run=True)
    nothing = (Reservation.objects.count(), hasattr(limit, "counter"))
    ask(cluster, uid="pod-2")
    full = ask(cluster, uid="pod-1", is_dry_run=True)

    assert (free.code, full.code) == (VerdictCode.ALLOWED, VerdictCode.LIMIT_REACHED)
    assert nothing == (0, False)
    assert counted(limit) == (0, 1, 0, 0)
    assert not AdmissionRefusal.objects.exists()


def test_limits_that_are_nearly_full_are_reported(cast: Cast, cluster: Cluster) -> None:
    make_limit(cast.acme, units=100)
    make_limit(cast.acme, cast.llm, units=10)

    some = ask(cluster, "llm", "pod-1", demand(8))
    nearly = ask(cluster, "llm", "pod-2", demand(1))

    assert some.nearly_full == ()
    assert [(b.holder, b.limit_units, b.reserved_units) for b in nearly.nearly_full] == [
        ("llm", 10, 8)
    ]


def test_a_cluster_that_only_warns_counts_what_it_would_refuse(
    cast: Cast, cluster: Cluster
) -> None:
    cluster.admission_mode = "warn"
    cluster.save()
    limit = make_limit(cast.acme, units=1)

    verdict = ask(cluster, "llm", "pod-1", demand(2))

    assert verdict.code is VerdictCode.LIMIT_REACHED
    assert counted(limit) == (0, 2, 0, 0)
    assert not AdmissionRefusal.objects.exists()
