"""Pairing: each pod's resource in one window with what each source reports, reconciled."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import msgspec
from msgspec import structs

from metering.domain.allocations.timeline import (
    EndKind,
    Life,
    life_of,
    seconds_between,
    whole_second,
)
from metering.domain.catalogue.units import (
    CLAIM_PREFIX,
    UNKNOWN_UNITS_MAX,
    effective_units,
    sanitise,
)
from metering.domain.collection.reconciliation import (
    Accepted,
    ObservedIntervals,
    Reconciled,
    SourceAccount,
    SourceVerdict,
    WindowShare,
    intervals_of_ticks,
    reconcile,
    share_of,
    tolerance_seconds,
)
from metering.domain.collection.windows import GapPolicy
from metering.protocols import ContainerRequest, PodObservation
from metering.selectors.allocations.rows import AllocationKey, LedgerRow
from metering.services.collection.composed import WindowInput

SHORT_SCRAPES = 2
"""A life visible for less than two scrapes may be missed."""

_SECOND = timedelta(seconds=1)
_UNFINISHED = frozenset({EndKind.OPEN, EndKind.VANISHED_IN_GAP})
_ESTIMATES = frozenset({GapPolicy.LAST_KNOWN, GapPolicy.HOLD})


class Case(msgspec.Struct, frozen=True):
    """One resource of one pod in one window.

    Attributes:
        resource: Sanitised.
        row: Its ledger row, from either source.
        pod: What the scrapes showed; None when they did not show it.
        kubernetes: What the API reports; also None without a watch.
        prometheus: What the scrapes report; None when it held nothing by them.
        seen_life: When it held its devices by the scrapes, whatever it requested.
        requested_units: As scraped; 0 when missing.
        is_estimated: Whether its end is unknown and estimated near its last sample.
    """

    uid: str
    resource: str
    row: LedgerRow | None
    pod: PodObservation | None
    kubernetes: SourceAccount | None
    prometheus: SourceAccount | None
    found: Reconciled | None
    share: WindowShare | None
    seen_life: Life | None = None
    requested_units: int = 0
    is_estimated: bool = False

    @property
    def namespace(self) -> str:
        """Return the pod's namespace."""
        return self.row.fact.namespace if self.row else self._seen.namespace

    @property
    def name(self) -> str:
        """Return the pod's name."""
        return self.row.fact.pod_name if self.row else self._seen.name

    @property
    def node(self) -> str:
        """Return the node the pod was bound to."""
        return self.row.fact.node if self.row else self._seen.node

    @property
    def node_labels(self) -> Mapping[str, str]:
        """Return the labels that settle its size."""
        return self.row.node_labels if self.row else self._seen.node_labels

    @property
    def defects(self) -> tuple[str, ...]:
        """Return what the scrapes report of the pod that cannot be or contradicts itself."""
        return self.pod.defects if self.pod else ()

    @property
    def _seen(self) -> PodObservation:
        assert self.pod is not None  # noqa: S101 - A case has a row or a pod; narrows the type.
        return self.pod


def cases_of(given: WindowInput) -> Iterator[Case]:
    """Yield every pod's resource that may have held something, by uid and resource."""
    pairing = _Pairing(given)
    for key in sorted({*pairing.asked, *pairing.remembered()}):
        case = pairing.case(key)
        if case is not None:
            yield case


class _Pairing:
    """Lookups shared by all cases of one window."""

    def __init__(self, given: WindowInput) -> None:
        seen = given.observation
        scrape = given.scrape_interval_seconds
        self.given = given
        scrapes = given.scrapes
        self.start_at, self.end_at = given.hour.start_at, given.hour.end_at
        self.is_watched = given.hour.is_watched
        pods = _as_bound(seen.pods, given.ledger.rows) if seen else ()
        self.pods = {pod.uid: pod for pod in pods}
        self.asked: dict[AllocationKey, Sequence[ContainerRequest]] = {
            (pod.uid, resource): asks
            for pod in self.pods.values()
            for resource, asks in _by_resource(pod).items()
        }
        self.lives = {
            uid: life_of(
                pod,
                ticks=scrapes.ticks_for(pod.targets),
                scrape_interval_seconds=scrape,
                observed_until=scrapes.last_tick,
            )
            for uid, pod in self.pods.items()
        }
        self.eyes = ObservedIntervals(
            kubernetes=given.ledger.watch.spans,
            prometheus=intervals_of_ticks(scrapes.joint, scrape_interval_seconds=scrape),
        )
        self.tolerance = tolerance_seconds(
            window_seconds=seconds_between(self.start_at, self.end_at),
            scrape_interval_seconds=scrape,
        )
        self.is_estimating = given.gap_policy in _ESTIMATES
        self.whole_shares: dict[tuple[SourceVerdict, int, bool], WindowShare] = {}

    def remembered(self) -> Iterator[AllocationKey]:
        """Yield rows found only in the ledger: the API's, or all where ends are estimated.

        Includes pods observed after the hour, because they cannot have ended before; and pods a
        person decided about, although no source reports them any more.
        """
        for key, row in self.given.ledger.rows.items():
            is_api = self.is_watched and row.is_from_api
            is_decided = key in self.given.ledger.decisions
            if is_api or is_decided or self.is_estimating or self._outlasted(row):
                yield key

    def case(self, key: AllocationKey) -> Case | None:
        """Return one case; None when no source reports that anything was held."""
        row, pod = self.given.ledger.rows.get(key), self.pods.get(key[0])
        units = effective_units(self.asked[key]) if key in self.asked else 0
        kubernetes = self._from_api(row) if row else None
        prometheus = self._from_scrapes(pod, units=units) if pod else None
        if kubernetes is not None and pod is not None and pod.defects:
            # A self-contradicting sample is not compared: only the API's value counts.
            prometheus = None
        if row is not None and kubernetes is None and (self.is_estimating or self._outlasted(row)):
            prometheus = _later(prometheus, row=row)
        accepted = self.given.ledger.decisions.get(key)
        if row is None and prometheus is None:
            accepted = None
        found = self._reconciled(
            key, kubernetes=kubernetes, prometheus=prometheus, accepted=accepted
        )
        if found is None and units == 0:
            return None
        known = found
        if self.is_estimating and found is not None:
            found = self._estimated(found, accounts=(kubernetes, prometheus))
        return Case(
            uid=key[0],
            resource=key[1],
            row=row,
            pod=pod if key in self.asked else None,
            kubernetes=kubernetes,
            prometheus=prometheus,
            found=found,
            share=self._share(found),
            seen_life=self.lives.get(key[0]) if key in self.asked else None,
            requested_units=units,
            is_estimated=found != known,
        )

    def _outlasted(self, row: LedgerRow) -> bool:
        """Whether scrapes after the hour showed it, so that it did not end in a hole before."""
        return not self.is_watched and row.last_seen_at >= self.end_at

    def _from_api(self, row: LedgerRow) -> SourceAccount | None:
        if not (self.is_watched and row.is_from_api):
            return None
        beat_at = self.given.ledger.watch.until_at
        known_until = max(row.last_seen_at, beat_at) if beat_at else row.last_seen_at
        return SourceAccount(
            life=self._known_life(row, until=known_until),
            units=row.fact.units,
            known_until_at=known_until,
        )

    def _known_life(self, row: LedgerRow, *, until: datetime) -> Life:
        """Return a row's life; a claim, which only the watch observes, ends where that stopped."""
        end_at = self.given.hour.end_at
        is_lost = row.fact.resource.startswith(CLAIM_PREFIX) and until < end_at
        if row.life.end_at is not None or not is_lost:
            return row.life
        lost_at = max(row.life.begin_at, until.replace(microsecond=0))
        slack = seconds_between(lost_at, end_at)
        return Life(row.life.begin_at, lost_at, EndKind.VANISHED_IN_GAP, slack)

    def _from_scrapes(self, pod: PodObservation, *, units: int) -> SourceAccount | None:
        life = self.lives[pod.uid]
        if life is None or not 1 <= units <= UNKNOWN_UNITS_MAX:
            return None
        return SourceAccount(life=life, units=units, known_until_at=pod.last_seen_at)

    def _estimated(
        self, found: Reconciled, *, accounts: Sequence[SourceAccount | None]
    ) -> Reconciled:
        """Return what is billed up to half a scrape after the last sample, if it ended in a hole.

        What was observed again after the hour lasted through it.
        """
        life, hour_end_at = found.billed, self.given.hour.end_at
        known_until_at = max(
            (one.known_until_at for one in accounts if one is not None), default=hour_end_at
        )
        if life is None or life.end_kind not in _UNFINISHED:
            return found
        if life.end_at is None and known_until_at >= hour_end_at:
            return found
        lower = max(life.begin_at, whole_second(life.end_at or known_until_at))
        half = timedelta(seconds=self.given.scrape_interval_seconds) / 2
        slack = life.slack_seconds or seconds_between(lower, hour_end_at)
        end_at = whole_second(lower + min(half, timedelta(seconds=slack)))
        return structs.replace(
            found,
            billed=Life(
                begin_at=life.begin_at,
                end_at=end_at,
                end_kind=EndKind.VANISHED,
                slack_seconds=max(seconds_between(lower, end_at), slack - half // _SECOND),
            ),
        )

    def _reconciled(
        self,
        key: AllocationKey,
        *,
        kubernetes: SourceAccount | None,
        prometheus: SourceAccount | None,
        accepted: Accepted | None,
    ) -> Reconciled | None:
        if kubernetes is None and prometheus is None and accepted is None:
            return None
        if not self.is_watched:
            assert prometheus is not None  # noqa: S101 - Without a watch the API reports nothing.
            return Reconciled(SourceVerdict.AGREED, prometheus.units, billed=prometheus.life)
        return reconcile(
            kubernetes=kubernetes,
            prometheus=prometheus,
            eyes=self._observed_for(key),
            tolerance=self.tolerance,
            short_seconds=SHORT_SCRAPES * self.given.scrape_interval_seconds,
            accepted=accepted,
        )

    def _observed_for(self, key: AllocationKey) -> ObservedIntervals:
        """Return when each source can be compared; kube-state-metrics shows no device claims."""
        row, pod = self.given.ledger.rows.get(key), self.pods.get(key[0])
        is_claim = row is not None and row.fact.resource.startswith(CLAIM_PREFIX)
        if is_claim or (pod is not None and pod.defects):
            return replace(self.eyes, prometheus=())
        return self.eyes

    def _share(self, found: Reconciled | None) -> WindowShare | None:
        if found is None:
            return None
        if not self._is_billed_whole(found):
            return share_of(found, start_at=self.start_at, end_at=self.end_at)
        # Most pods hold something all the hour, and have one share in common.
        key = found.verdict, found.units, found.is_request_different
        share = self.whole_shares.get(key)
        if share is None:
            share = share_of(found, start_at=self.start_at, end_at=self.end_at)
            self.whole_shares[key] = share
        return share

    def _is_billed_whole(self, found: Reconciled) -> bool:
        """Whether the hour is billed as a whole, and nothing but verdict and units matters."""
        life = found.billed
        return (
            life is not None
            and life.end_at is None
            and life.begin_at <= self.start_at
            and not found.disputed
            and found.fallback is None
        )


def _as_bound(
    pods: Iterable[PodObservation], rows: Mapping[AllocationKey, LedgerRow]
) -> Iterator[PodObservation]:
    """Yield pods; one that contradicts itself begins as it was snapshotted at its bind."""
    begins: dict[str, datetime] | None = None
    for pod in pods:
        if not pod.defects:
            yield pod
            continue
        if begins is None:
            begins = {uid: row.life.begin_at for (uid, _), row in rows.items()}
        begin_at = begins.get(pod.uid)
        yield pod if begin_at is None else structs.replace(pod, scheduled_at=begin_at)


def _by_resource(pod: PodObservation) -> Mapping[str, Sequence[ContainerRequest]]:
    if len(pod.requests) == 1:
        return {sanitise(pod.requests[0].resource): pod.requests}
    grouped: dict[str, list[ContainerRequest]] = defaultdict(list)
    for request in pod.requests:
        grouped[sanitise(request.resource)].append(request)
    return grouped


def _later(account: SourceAccount | None, *, row: LedgerRow) -> SourceAccount | None:
    """Return what the ledger knows from other hours, where it lasted longer by that.

    A pod that only vanished and was shown again later had not ended. A pod that ended is shown
    later too while its object stays, and that may bound its end less closely than this hour does.
    """
    known = SourceAccount(life=row.life, units=row.fact.units, known_until_at=row.last_seen_at)
    if account is None:
        return known
    lasted_longer = (row.life.end_at or row.last_seen_at) > account.end_not_before
    return known if lasted_longer and account.life.end_kind is not EndKind.EXACT else account
