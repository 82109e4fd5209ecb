"""What all parts of a window are judged by together: its settlement and its end."""

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from metering.domain.collection.crashpoints import crashpoint
from metering.domain.collection.parts import PartState
from metering.domain.collection.windows import MeteringPolicy, WindowState
from metering.models import WindowDivision, WindowPart
from metering.protocols.parts import Settled
from metering.selectors.catalogue import catalogue_of
from metering.selectors.locks import lock_cluster_ledger
from metering.services.allocations.sizing import settle_open_sizes
from metering.services.catalogue import ensure_catalogue
from metering.services.collection.collecting import Collection, finish_window, suffices
from metering.services.collection.composed import (
    ClaimedWindow,
    WindowFigures,
)
from metering.services.collection.division.composing import compose_nodes_of
from metering.services.collection.division.leasing import dissolve, give_back, require_claim
from metering.services.collection.division.packing import (
    Settlement,
    pack_settlement,
    unpack,
    unpack_settlement,
)
from metering.services.collection.division.reading import (
    PodReader,
    observed_in_parts,
    settlement_of,
    uids_of,
    unobserved_hour,
)
from metering.services.collection.failures import (
    AWAY_REASONS,
    is_hopeless,
    record_failure,
    record_incomplete,
)
from metering.services.collection.findings import write_findings
from metering.services.collection.observing import HourObservation, basis_of, continuous
from metering.services.collection.posting import delete_usage, replace_capacity
from metering.services.collection.reconciliation import single_source
from tenants.domain.errors import SourceUnavailableError
from tenants.services.audit import audited_use


@dataclass(frozen=True)
class Collector(PodReader):
    """The worker that does a step, and how it reads."""

    worker: str


def stepped(claimed: ClaimedWindow) -> Collection:
    """Return that a step of a window was done, and that more is due."""
    return Collection(window_id=claimed.id, state=WindowState.OPEN, is_step=True)


def failed(
    claimed: ClaimedWindow,
    *,
    error: SourceUnavailableError,
    at: datetime,
    policy: MeteringPolicy,
) -> Collection:
    """Record that a source did not answer about a claimed window.

    Raises:
        ClaimLostError: Another worker took the window over.
    """
    state = record_failure(claimed=claimed, error=error, at=at, policy=policy)
    return Collection(window_id=claimed.id, state=state, is_away=error.reason in AWAY_REASONS)


def settle(
    claimed: ClaimedWindow, *, division: WindowDivision, by: Collector, at: datetime
) -> Collection | None:
    """Judge a window all parts of which were observed, and make the parts due to be posted.

    Returns:
        None where it was observed too little for long, so that it is to be judged in one go.

    Raises:
        ClaimLostError: Another worker took the window over.
    """
    parts = [
        bytes(found)
        for found in WindowPart.objects.filter(division=division).values_list("found", flat=True)
        if found is not None
    ]
    try:
        with audited_use(slug=claimed.target.slug, actor=by.actor, at=at):
            settlement = _settlement(claimed, division=division, parts=parts, by=by)
    except SourceUnavailableError as error:
        return _begin_anew(claimed, error=error, at=at, policy=by.policy)
    observed = observed_in_parts(claimed.hour, settlement=settlement, as_of=division.as_of)
    if settlement.basis.scrapes_suffice:
        uids = [uid for part in parts for uid in uids_of(part)]
        observed = continuous(observed, pod_uids=uids)
        if observed.failure is not None:
            return _begin_anew(claimed, error=observed.failure, at=at, policy=by.policy)
    if not suffices(observed, basis=settlement.basis, claimed=claimed, at=at, policy=by.policy):
        return _put_off(claimed, observed=observed, by=by, at=at)
    catalogue = ensure_catalogue(actor=by.actor, at=at)
    with transaction.atomic():
        require_claim(claimed)
        lock_cluster_ledger(claimed.cluster_id)
        if claimed.hour.is_watched:
            settle_open_sizes(claimed.cluster_id, catalogue=catalogue)
        delete_usage(claimed)  # Of an earlier attempt: parts only add.
        WindowDivision.objects.filter(window_id=claimed.id).update(
            settled=pack_settlement(settlement), catalogue_version=catalogue.version
        )
        WindowPart.objects.filter(division=division).update(state=PartState.DUE.value, found=None)
        give_back(claimed)
        crashpoint("part.settle.before_commit")
    crashpoint("part.settle.after_commit")
    return stepped(claimed)


def _settlement(
    claimed: ClaimedWindow,
    *,
    division: WindowDivision,
    parts: list[bytes],
    by: Collector,
) -> Settlement:
    hour, as_of = claimed.hour, division.as_of
    if division.frame is not None:
        frame = bytes(division.frame)
        return settlement_of(hour, frame=frame, parts=parts, by=by, as_of=as_of)
    alone = unobserved_hour(hour, as_of=as_of, failure=None)
    return Settlement(
        observation=None,
        settled=Settled(),
        scrapes=alone.scrapes,
        coverage=None,
        watch=alone.watch,
        basis=basis_of(alone, policy=by.policy),
        has_claims=alone.has_claims,
    )


def _begin_anew(
    claimed: ClaimedWindow,
    *,
    error: SourceUnavailableError,
    at: datetime,
    policy: MeteringPolicy,
) -> Collection:
    """Record that the answers contradict each other; all of them are asked for again later."""
    with transaction.atomic():
        collected = failed(claimed, error=error, at=at, policy=policy)
        dissolve([claimed.id])
    return collected


def _put_off(
    claimed: ClaimedWindow, *, observed: HourObservation, by: Collector, at: datetime
) -> Collection | None:
    with transaction.atomic():
        if is_hopeless(claimed, observed=observed, at=at, policy=by.policy):
            require_claim(claimed)
            dissolve([claimed.id])
            return None
        state = record_incomplete(
            claimed=claimed, observed=observed, actor=by.actor, at=at, policy=by.policy
        )
        dissolve([claimed.id])
    return Collection(window_id=claimed.id, state=state)


def finish_divided(claimed: ClaimedWindow, *, division: WindowDivision, at: datetime) -> Collection:
    """Finish a window all parts of which are posted, from what they add up to.

    Raises:
        ClaimLostError: Another worker took the window over.
    """
    assert division.settled is not None  # noqa: S101 - It is settled; narrows the type.
    assert division.catalogue_version is not None  # noqa: S101 - As above.
    settlement = unpack_settlement(division.settled, with_nodes=True)
    observed = observed_in_parts(claimed.hour, settlement=settlement, as_of=division.as_of)
    figures = WindowFigures()
    for found in WindowPart.objects.filter(division=division).values_list("found", flat=True):
        assert found is not None  # noqa: S101 - All are posted; narrows the type.
        figures.add(unpack(found, WindowFigures))
    with transaction.atomic():
        require_claim(claimed)
        catalogue = catalogue_of(division.catalogue_version)
        capacity, findings = compose_nodes_of(observed, uses=figures.places, catalogue=catalogue)
        findings += single_source(observed, basis=settlement.basis)
        replace_capacity(claimed, rows=capacity)
        write_findings(claimed, findings=findings, at=at, besides=figures.findings)
        figures.findings += [(one.kind, one.subject) for one in findings]
        collected = finish_window(
            claimed,
            observed=observed,
            version=division.catalogue_version,
            figures=figures,
            capacity=capacity,
            at=at,
        )
        dissolve([claimed.id])
        crashpoint("part.finish.before_commit")
    crashpoint("part.finish.after_commit")
    return collected
