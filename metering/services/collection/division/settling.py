"""What all parts of a window are judged by together: its settlement and its end."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.db import transaction
from msgspec import structs

from metering.domain.collection.crashpoints import crashpoint
from metering.domain.collection.parts import PartState
from metering.domain.collection.windows import MeteringPolicy, WindowState
from metering.domain.corrections.exceptions import Finding
from metering.models import WindowDivision, WindowPart
from metering.protocols import PodObservation
from metering.protocols.parts import DividingSource, Frame, Settled
from metering.protocols.storable import checked
from metering.selectors.allocations.ledger import WindowLedger, node_facts
from metering.selectors.catalogue import catalogue_of
from metering.selectors.locks import lock_cluster_ledger
from metering.services.allocations.sizing import settle_open_sizes
from metering.services.catalogue import ensure_catalogue
from metering.services.collection.balancing import Sizer
from metering.services.collection.collecting import Collection, finish_window, suffices
from metering.services.collection.composed import (
    CapacityRow,
    ClaimedWindow,
    WindowFigures,
    WindowInput,
)
from metering.services.collection.composition import compose_nodes
from metering.services.collection.division.leasing import dissolve, give_back, require_claim
from metering.services.collection.division.packing import (
    PartSeen,
    Reach,
    Settlement,
    pack,
    unpack,
)
from metering.services.collection.failures import (
    AWAY_REASONS,
    is_hopeless,
    record_failure,
    record_incomplete,
)
from metering.services.collection.observing import (
    HourObservation,
    basis_of,
    continuous,
    has_claims_of,
    hour_coverage,
    scrapes_of,
    watch_of,
)
from metering.services.collection.posting import replace_capacity, write_findings
from metering.services.collection.reconciliation import single_source
from tenants.domain.actors import Actor
from tenants.domain.errors import SourceUnavailableError
from tenants.services.audit import audited_use


@dataclass(frozen=True)
class Collector:
    """The worker that does a step, its source and its policy."""

    worker: str
    source: DividingSource
    actor: Actor
    policy: MeteringPolicy


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


def observe_frame(
    claimed: ClaimedWindow,
    *,
    by: Collector,
    as_of: datetime,
    at: datetime,
    clock_skew_seconds: int = 0,
) -> Frame:
    """Return all of a window's observation but the pods.

    Raises:
        SourceUnavailableError: The source did not answer, or not usably.
    """
    with audited_use(slug=claimed.target.slug, actor=by.actor, at=at):
        frame = by.source.observe_frame(
            claimed.target,
            start_at=claimed.start_at,
            end_at=claimed.end_at,
            as_of=as_of,
            clock_skew_seconds=clock_skew_seconds,
        )
    return replace(
        frame,
        observation=checked(frame.observation, start_at=claimed.start_at, end_at=claimed.end_at),
    )


def unobserved_hour(
    claimed: ClaimedWindow, *, as_of: datetime, failure: SourceUnavailableError | None
) -> HourObservation:
    """Return an hour of which no source but the watch reported anything."""
    return HourObservation(
        hour=claimed.hour,
        as_of=as_of,
        scrapes=scrapes_of(None),
        failure=failure,
        watch=watch_of(claimed.hour, until_at=as_of),
        has_claims=has_claims_of(claimed.hour),
    )


def observed_in_parts(
    claimed: ClaimedWindow, *, settlement: Settlement, as_of: datetime
) -> HourObservation:
    """Return an hour as all parts observed it, without its pods."""
    seen = settlement.observation
    return HourObservation(
        hour=claimed.hour,
        as_of=seen.as_of if seen else as_of,
        observation=seen,
        scrapes=settlement.scrapes,
        coverage=settlement.coverage,
        watch=settlement.watch,
        has_claims=settlement.has_claims,
    )


def settled_pods(pods: Iterable[PodObservation], *, settled: Settled) -> tuple[PodObservation, ...]:
    """Return a part's pods as all parts together show them."""
    kept = (pod for pod in pods if pod.uid not in settled.left_out)
    return tuple(_settled_pod(pod, settled=settled) for pod in kept)


def _settled_pod(pod: PodObservation, *, settled: Settled) -> PodObservation:
    skew = timedelta(seconds=settled.clock_skew_seconds)
    defects = settled.defects.get(pod.uid, ())
    if not skew and not defects:
        return pod
    terminal = pod.terminal_seen_at
    return structs.replace(
        pod,
        first_seen_at=pod.first_seen_at - skew,
        last_seen_at=pod.last_seen_at - skew,
        terminal_seen_at=None if terminal is None else terminal - skew,
        defects=tuple(sorted({*pod.defects, *defects})),
    )


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
        unpack(found, PartSeen)
        for found in WindowPart.objects.filter(division=division).values_list("found", flat=True)
        if found is not None
    ]
    try:
        settlement = _settlement(claimed, division=division, parts=parts, by=by, at=at)
    except SourceUnavailableError as error:
        return _begin_anew(claimed, error=error, at=at, policy=by.policy)
    observed = observed_in_parts(claimed, settlement=settlement, as_of=division.as_of)
    if settlement.basis.scrapes_suffice:
        uids = [uid for part in parts for uid in part.uids]
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
        WindowDivision.objects.filter(window_id=claimed.id).update(
            settled=pack(settlement), catalogue_version=catalogue.version
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
    parts: list[PartSeen],
    by: Collector,
    at: datetime,
) -> Settlement:
    if division.frame is None:
        alone = unobserved_hour(claimed, as_of=division.as_of, failure=None)
        return Settlement(
            observation=None,
            settled=Settled(),
            scrapes=alone.scrapes,
            coverage=None,
            watch=alone.watch,
            basis=basis_of(alone, policy=by.policy),
            has_claims=alone.has_claims,
        )
    frame = unpack(division.frame, Frame)
    traces = [part.traces for part in parts]
    with audited_use(slug=claimed.target.slug, actor=by.actor, at=at):
        settled = by.source.settle(claimed.target, frame=frame, traces=traces)
    skew = settled.clock_skew_seconds
    if skew:
        frame = observe_frame(claimed, by=by, as_of=division.as_of, at=at, clock_skew_seconds=skew)
    seen = frame.observation
    evidence = (*seen.evidence, *(one for part in parts for one in part.evidence))
    reaches = {_on_api_clock(reach, skew) for part in parts for reach in part.reaches}
    scrapes = scrapes_of(seen, carried=reaches)
    coverage = hour_coverage(seen, scrapes=scrapes, hour=claimed.hour)
    observed = replace(
        unobserved_hour(claimed, as_of=division.as_of, failure=None),
        observation=seen,
        scrapes=scrapes,
        coverage=coverage,
    )
    return Settlement(
        observation=replace(seen, evidence=evidence),
        settled=settled,
        scrapes=scrapes,
        coverage=coverage,
        watch=observed.watch,
        basis=basis_of(observed, policy=by.policy),
        has_claims=observed.has_claims,
    )


def _on_api_clock(reach: Reach, skew_seconds: int) -> Reach:
    skew = timedelta(seconds=skew_seconds)
    return Reach(reach.targets, reach.first_seen_at - skew, reach.last_seen_at - skew)


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
    settlement = unpack(division.settled, Settlement)
    observed = observed_in_parts(claimed, settlement=settlement, as_of=division.as_of)
    figures = WindowFigures()
    for found in WindowPart.objects.filter(division=division).values_list("found", flat=True):
        assert found is not None  # noqa: S101 - All are posted; narrows the type.
        figures.add(unpack(found, WindowFigures))
    with transaction.atomic():
        require_claim(claimed)
        capacity, findings = _balanced(
            claimed, settlement=settlement, version=division.catalogue_version, figures=figures
        )
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


def _balanced(
    claimed: ClaimedWindow, *, settlement: Settlement, version: int, figures: WindowFigures
) -> tuple[list[CapacityRow], list[Finding]]:
    hour, catalogue = claimed.hour, catalogue_of(version)
    nodes = (
        node_facts(hour.cluster_id, start_at=hour.start_at, end_at=hour.end_at)
        if hour.is_watched
        else ()
    )
    window = WindowInput(
        hour=hour,
        observation=settlement.observation,
        scrapes=settlement.scrapes,
        ledger=WindowLedger(nodes=nodes, watch=settlement.watch),
        directory={},
        catalogue=catalogue,
    )
    sizer = Sizer(catalogue, observation=settlement.observation)
    return compose_nodes(window, uses=figures.places, sizer=sizer)
