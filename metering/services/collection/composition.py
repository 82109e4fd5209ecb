"""Composing a window: from what is known of it to the rows that will be written, writing none.

Each pod's life is reconciled and clipped to the window, its hardware looked up in the ledger or
settled by the catalogue, and its namespace attributed. What fails on the way becomes a finding that
holds the unit-seconds; nothing is guessed and nothing is dropped.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping

from msgspec.structs import replace

from metering.domain.allocations.claims import offered_resource
from metering.domain.allocations.timeline import EndKind, Interval, clip
from metering.domain.catalogue.sizing import Sized, Unsized
from metering.domain.catalogue.units import is_believable, resource_of, sanitise, unit_seconds
from metering.domain.collection.reconciliation import SourceAccount, SourceVerdict, WindowShare
from metering.domain.collection.windows import GapPolicy
from metering.domain.corrections.exceptions import ExceptionKind, Finding, pod_subject
from metering.protocols import Observation
from metering.selectors.allocations.rows import AllocationFact, AllocationKey
from metering.services.collection.balancing import (
    Sizer,
    balance_nodes,
    claim_rows,
    is_claim,
    offers_of,
    places_of,
    sized_for,
)
from metering.services.collection.composed import (
    CapacityRow,
    Composed,
    NewAllocation,
    NodeUse,
    Place,
    PlaceUse,
    SeenAgain,
    UsageRow,
    WindowInput,
)
from metering.services.collection.findings import (
    changed_request,
    estimated_end,
    held_hour,
    inconsistent_node,
    inconsistent_pod,
    invalid_request,
    sided,
    unbelievable,
    unbound,
    uncertain_end,
    unproven_owner,
    unsized,
)
from metering.services.collection.pairing import Case, cases_of
from tenants.selectors.directory import tenant_at

SIZING_LABELS = ("nvidia_com_gpu_", "nvidia_com_mig_")
"""Beginnings of the node labels that are kept with an allocation, as what settled its size."""


def compose_window(given: WindowInput) -> Composed:
    """Return the rows of one window; reads and writes nothing."""
    sizer = Sizer(given.catalogue, observation=given.observation)
    composed = compose_pods(given, sizer=sizer)
    composed.capacity, findings = compose_nodes(given, uses=composed.places, sizer=sizer)
    composed.findings += findings
    return composed


def compose_pods(given: WindowInput, *, sizer: Sizer) -> Composed:
    """Return what a window, or a part of it, has of its pods: all but the capacity."""
    composed = Composed()
    composing = _WindowComposition(given, sizer=sizer, into=composed)
    for case in cases_of(given):
        composing.add(case)
    composed.findings += unsupported_decisions(given, billed=composing.billed)
    refused = given.ledger.refused
    composed.findings += [unbelievable(pod) for pod in refused if pod.requests or pod.defects]
    composed.findings += [unproven_owner(pod) for pod in refused if pod.unproven_owner]
    composed.places = places_of(composed.usage, composed.held)
    return composed


def compose_nodes(
    given: WindowInput, *, uses: Mapping[Place, PlaceUse], sizer: Sizer
) -> tuple[list[CapacityRow], list[Finding]]:
    """Return the capacity of a window's nodes, and what of them cannot be or does not add up.

    Args:
        given: The window; its pods are not read.
        uses: What all its pods used.
        sizer: The catalogue in force.
    """
    rows, excesses = balance_nodes(
        offers_of(given),
        uses=uses,
        sizer=sizer,
        scrape_interval_seconds=given.scrape_interval_seconds,
    )
    nodes = given.observation.nodes if given.observation is not None else ()
    # Of an hour that is held as a whole nothing is billed, so nothing of it is billed too much.
    is_held = given.gap_policy is GapPolicy.HOLD
    return rows, [
        *(inconsistent_node(node) for node in nodes if node.defects),
        *(one for one in excesses if not (is_held and one.kind is ExceptionKind.OVER_CAPACITY)),
    ]


class _WindowComposition:
    """One window while its cases are added one after another."""

    def __init__(self, given: WindowInput, *, sizer: Sizer, into: Composed) -> None:
        self.given = given
        self.sizer = sizer
        self.into = into
        self.billed: set[AllocationKey] = set()
        self.digest = digest_of(given.observation)

    def add(self, case: Case) -> None:
        """Add one pod's one resource."""
        self.billed.add((case.uid, case.resource))
        self._note_observation(case)
        if not self._is_believable(case):
            if self._is_inside(case):
                self.into.findings.append(invalid_request(case))
            return
        share = self._share(case)
        if share is not None and (share.interval is not None or share.held_seconds):
            self._compare(case, share=share)
        interval = share.interval if share is not None else None
        if share is not None and interval is not None and self._is_inconsistent(case, share=share):
            use = self._use(case, share=share, interval=interval)
            self._hold(replace(use, is_disputed=True), inconsistent_pod(case, use=use))
            return
        is_billed = (
            share is not None
            and interval is not None
            and self._hold_or_bill(case, share=share, interval=interval)
        )
        if case.defects and self._is_inside(case):
            self.into.findings.append(inconsistent_pod(case, use=None, is_billed=is_billed))

    def _is_inconsistent(self, case: Case, *, share: WindowShare) -> bool:
        """Whether only metrics that contradict each other could show what a pod used.

        A snapshot of its bind, the API or a person's decision shows it without them.
        """
        if not case.defects:
            return False
        is_snapshotted = case.row is not None and case.row.fact.size != ""
        is_known = is_snapshotted and case.pod is not None and case.pod.is_end_known
        return not (is_known or case.kubernetes or share.verdict is SourceVerdict.ACCEPTED)

    def _note_observation(self, case: Case) -> None:
        row = case.row
        if case.pod is not None and not case.pod.is_end_known:
            return
        is_apis = row is not None and row.is_from_api and self.given.hour.is_watched
        if row is not None and case.pod is not None and case.seen_life is not None and not is_apis:
            again = SeenAgain(row.id, case.seen_life, case.pod.last_seen_at)
            self.into.seen_again.append(again)

    def _settled(self, case: Case) -> AllocationFact | Sized | Unsized:
        if case.row is not None and case.row.fact.size != "":
            return case.row.fact
        return self.sizer.size(case.resource, node=case.node, labels=case.node_labels)

    def _is_believable(self, case: Case) -> bool:
        """Whether what is billed is a request that can be; the API's was checked at bind."""
        if case.kubernetes is not None or case.pod is None:
            return True
        is_known = resource_of(case.resource) is not None
        return is_believable(case.requested_units, is_sized=is_known)

    def _is_inside(self, case: Case) -> bool:
        """Whether a pod used something in the hour by the scrapes, or waited for a node in it."""
        hour, life, pod = self.given.hour, case.seen_life, case.pod
        if life is not None:
            return bool(clip(life, start_at=hour.start_at, end_at=hour.end_at))
        if pod is None or pod.terminal_seen_at is not None:
            return False
        return pod.first_seen_at < hour.end_at and pod.last_seen_at >= hour.start_at

    def _share(self, case: Case) -> WindowShare | None:
        """Return the share of a case; without a watch the ledger's request is what counts."""
        share, row = case.share, case.row
        if share is None or row is None or self.given.hour.is_watched:
            return share
        units = row.fact.units
        is_changed = case.requested_units not in (0, units) and not case.defects
        if share.interval is not None and is_changed:
            self.into.findings.append(changed_request(case, known=row.fact))
        return share if share.units == units else replace(share, units=units)

    def _compare(self, case: Case, *, share: WindowShare) -> None:
        if not self.given.hour.is_watched:
            return
        comparison = self.into.comparison
        if case.kubernetes is not None and case.prometheus is not None:
            self.into.reported_by_both.add((case.uid, case.resource))
        comparison.verdicts[share.verdict] = comparison.verdicts.get(share.verdict, 0) + 1
        for side, account in (("kubernetes", case.kubernetes), ("prometheus", case.prometheus)):
            billed = self._unit_seconds(account)
            of_side = comparison.billed_unit_seconds
            of_side[side] = of_side.get(side, 0) + billed
        # When a whole source was unavailable, one finding about the hour covers all its pods.
        if share.verdict is not SourceVerdict.RECOVERED or self.given.is_trusted:
            self.into.findings += sided(case, share=share, digest=self.digest)
        if share.held_seconds:
            held = unit_seconds(units=share.units, seconds=share.held_seconds)
            comparison.disputed_unit_seconds += held
            use = NodeUse(case.node, _place_of(case), share.units, held, 0, is_disputed=True)
            self.into.held.append(use)

    def _unit_seconds(self, account: SourceAccount | None) -> int:
        hour = self.given.hour
        inside = account and clip(account.life, start_at=hour.start_at, end_at=hour.end_at)
        return account.units * inside.seconds if account and inside else 0

    def _use(self, case: Case, *, share: WindowShare, interval: Interval) -> NodeUse:
        return NodeUse(
            node=case.node,
            resource=_place_of(case),
            units=share.units,
            unit_seconds=unit_seconds(units=share.units, seconds=interval.seconds),
            slack_seconds=interval.slack_seconds,
        )

    def _hold_or_bill(self, case: Case, *, share: WindowShare, interval: Interval) -> bool:
        """Add what is held or billed; return whether it is billed."""
        settled = self._settled(case)
        tenant = tenant_at(self.given.directory, namespace=case.namespace, moment=interval.begin_at)
        is_held_whole = self.given.gap_policy is GapPolicy.HOLD
        if tenant is not None and not isinstance(settled, Unsized) and not is_held_whole:
            fact = self._fact(case, settled=settled)
            fact = fact if fact.units == share.units else replace(fact, units=share.units)
            billed = unit_seconds(units=share.units, seconds=interval.seconds)
            self._bill(case, row=UsageRow(fact, tenant, interval, billed))
            return True
        use = self._use(case, share=share, interval=interval)
        if isinstance(settled, Unsized):
            self._hold(use, unsized(case, use=use, cause=settled.cause))
        elif tenant is None:
            self._hold(use, unbound(case, use=use))
        else:
            self._hold(use, held_hour(case, use=use))
        return False

    def _hold(self, use: NodeUse, finding: Finding) -> None:
        self.into.held.append(use)
        self.into.findings.append(finding)

    def _bill(self, case: Case, *, row: UsageRow) -> None:
        if is_claim(row.fact):
            consumers = self.given.ledger.consumers.get(row.fact.pod_uid, ())
            self.into.usage += claim_rows(row, consumers=consumers)
        else:
            self.into.usage.append(row)
        if case.is_estimated and row.interval.end_kind is EndKind.VANISHED:
            self.into.findings.append(estimated_end(row.fact, interval=row.interval))
        elif row.interval.end_kind is EndKind.VANISHED_IN_GAP:
            self.into.findings.append(uncertain_end(row.fact, interval=row.interval))

    def _fact(self, case: Case, *, settled: AllocationFact | Sized) -> AllocationFact:
        """Return what is held, added to the ledger when it is missing there."""
        if isinstance(settled, AllocationFact):
            return settled
        if case.row is not None:
            own = sized_for(settled, priority_class=case.row.priority_class)
            return _sized_fact(case.row.fact, sized=own)
        return self._first_observation(case, sized=settled)

    def _first_observation(self, case: Case, *, sized: Sized) -> AllocationFact:
        pod, account = case.pod, case.prometheus
        assert pod is not None  # noqa: S101 - Without a row the scrapes saw it; narrows the type.
        assert account is not None  # noqa: S101 - As above.
        sized = sized_for(sized, priority_class=pod.priority_class)
        fact = AllocationFact(
            pod_uid=pod.uid,
            resource=sized.resource,
            namespace=pod.namespace,
            pod_name=pod.name,
            node=pod.node,
            owner=pod.owner,
            units=account.units,
            size=sized.size.value,
            price_group=sized.price_group,
            sharing_mode=sized.sharing_mode.value,
            product=sized.product,
            share_numerator=sized.share.numerator,
            share_denominator=sized.share.denominator,
            catalogue_version=sized.catalogue_version,
            begin_at=account.life.begin_at,
        )
        labels = sizing_labels(pod.node_labels)
        self.into.new_allocations.append(
            NewAllocation(fact, pod.priority_class, labels, account.life, pod.last_seen_at)
        )
        return fact


def sizing_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the node labels that settle a size, by key."""
    return {
        key: text
        for key, text in sorted(labels.items())
        if sanitise(key).removeprefix("label_").startswith(SIZING_LABELS)
    }


def _sized_fact(known: AllocationFact, *, sized: Sized) -> AllocationFact:
    return replace(
        known,
        size=sized.size.value,
        price_group=sized.price_group,
        sharing_mode=sized.sharing_mode.value,
        product=sized.product,
        share_numerator=sized.share.numerator,
        share_denominator=sized.share.denominator,
        catalogue_version=sized.catalogue_version,
    )


def _place_of(case: Case) -> str:
    """Return the resource name of the node's offer."""
    if case.row is not None and is_claim(case.row.fact):
        return offered_resource(case.row.fact.resource)
    return case.resource


def digest_of(observation: Observation | None) -> str:
    """Return one SHA-256 over the responses of an observation; "" without one."""
    if observation is None:
        return ""
    answers = "\n".join(sorted(item.sha256 for item in observation.evidence))
    return hashlib.sha256(answers.encode()).hexdigest()


def unsupported_decisions(
    given: WindowInput, *, billed: Collection[AllocationKey]
) -> Iterator[Finding]:
    """Yield what is held because a person accepted it and nothing else is known of it now.

    Without the pod's node its size is unknown. That a source lost it does not mean that it held
    nothing.
    """
    hour = given.hour
    for key, accepted in sorted(given.ledger.decisions.items()):
        life = accepted.life
        inside = life and clip(life, start_at=hour.start_at, end_at=hour.end_at)
        if key in billed or not inside:
            continue
        held = unit_seconds(units=accepted.units, seconds=inside.seconds)
        yield Finding(
            kind=ExceptionKind.PROMETHEUS_ONLY,
            subject=pod_subject(uid=key[0], resource=key[1]),
            namespace=given.ledger.decided_namespaces.get(key, ""),
            summary=(
                "Its evidence was accepted, but no source reports the pod any more: "
                f"{held} unit-seconds are held."
            ),
            held_unit_seconds=held,
            details={"cause": "unsupported", "resource": key[1], "units": accepted.units},
        )
