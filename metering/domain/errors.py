"""Refusals of metering, one class each."""

from tenants.domain.errors import ConflictError, ForbiddenError, InvalidInputError, NotFoundError


class ClaimLostError(ConflictError):
    """Another worker took the window over, or the lease ran out."""

    code = "metering_claim_lost"
    remedy = "Nothing was written; the window is metered by the holder of its lease."


class LeaseLostError(ConflictError):
    """Another process leads the cluster's watch now, or the lease ran out."""

    code = "metering_lease_lost"
    remedy = "Nothing was written; the present leader of the watch goes on from the stored version."


class WindowNotReconciledError(ConflictError):
    """Only a reconciled window is sealed."""

    code = "metering_window_not_reconciled"
    remedy = "Wait until the window is collected, and resolve what is open about it."


class WindowSealedError(ConflictError):
    """A sealed window is not metered again."""

    code = "metering_window_sealed"
    remedy = "A sealed window never changes; recheck it, or correct its records."


class WindowNotOverdueError(ConflictError):
    """An hour is tried again by itself until it is over its patience."""

    code = "metering_window_not_overdue"
    remedy = "Wait until the hour is a day old, or meter it again now."


class WindowMeteredError(ConflictError):
    """The hour is metered; there is nothing in it to be estimated."""

    code = "metering_window_metered"
    remedy = "Accept the hour as it is metered, hold it or waive it."


class WindowEndUnobservedError(ConflictError):
    """Nothing was observed after the hour, as far ahead as a source is queried."""

    code = "metering_window_end_unobserved"
    remedy = (
        "Waive the hour, hold it or bill it as last known; or, if its source gets its data back, "
        "wait for that and meter it again."
    )


class WindowChangedError(ConflictError):
    """What is known of an hour has changed since it was shown."""

    code = "metering_window_changed"
    status = 412
    remedy = "Fetch it again, look at what is known now, and decide on that."


class WindowNotSealedError(ConflictError):
    """Only a sealed window is checked again or corrected."""

    code = "metering_window_not_sealed"
    remedy = "Meter the window again instead; until it is sealed, that replaces all of it."


class WindowWaivedError(ConflictError):
    """A person decided that nothing is billed for the hour."""

    code = "metering_window_waived"
    remedy = "The hour was waived for good; nothing is added to it."


class WindowTooOldError(ConflictError):
    """The hour is older than the retention of the sources."""

    code = "metering_window_too_old"
    remedy = "Correct single records with a reason instead."


class CorrectionNotFoundError(NotFoundError):
    """There is no such correction, or the caller may not see it."""

    code = "usage_correction_not_found"


class CorrectionDecidedError(ConflictError):
    """It is posted or rejected already."""

    code = "usage_correction_decided"
    remedy = "Ask for another correction if this one was wrong."


class CorrectionStaleError(ConflictError):
    """The records it corrects have changed since it was requested."""

    code = "usage_correction_stale"
    remedy = "Reject it, look at the records as they are now, and ask again."


class CorrectionBelowZeroError(ConflictError):
    """The correction would make usage negative."""

    code = "usage_correction_below_zero"
    remedy = "Take away at most what all revisions of the record add up to."


class CorrectionEmptyError(InvalidInputError):
    """It changes nothing."""

    code = "usage_correction_empty"
    remedy = "Give a number of unit-seconds other than 0."


class CorrectionTooLargeError(InvalidInputError):
    """More than the pod's units could use in an hour."""

    code = "usage_correction_too_large"
    remedy = "A record is at most its units x 3,600 unit-seconds."


class CorrectionFourEyesError(ForbiddenError):
    """The person who requested a correction may not approve it."""

    code = "usage_correction_needs_four_eyes"
    remedy = "Ask another person with the role to approve it."


class WindowStateError(ConflictError):
    """The window is not in a state that allows this."""

    code = "metering_window_state"
    remedy = "Look at the window's state; only some allow this."


class ExceptionResolvedError(ConflictError):
    """The exception is resolved already."""

    code = "metering_exception_resolved"
    remedy = "Nothing has to be done."


class WindowDecisionRequiredError(ConflictError):
    """Its hour was not metered; what becomes of it is decided on the hour."""

    code = "metering_window_decision_required"
    remedy = "Decide on the hour: accept it, bill it as last known, hold it, waive it or retry it."


class ExceptionNotSidedError(ConflictError):
    """It is not about two sources that differ."""

    code = "metering_exception_not_sided"
    remedy = "Resolve it with a reason, or follow its remedy."


class NamespaceNotUnboundError(ConflictError):
    """Nothing of the incident is open because its namespace belongs to no project."""

    code = "metering_namespace_not_unbound"
    remedy = "Binding settles open incidents of the kind unbound_namespace; follow its own remedy."


class NoteMissingError(InvalidInputError):
    """A person's decision about money needs its reason."""

    code = "metering_note_missing"
    remedy = "Say in a sentence why."


def required_note(note: str, *, field: str = "note") -> str:
    """Return the reason of a decision without the blanks around it.

    Raises:
        NoteMissingError: It is empty.
    """
    if not note.strip():
        raise NoteMissingError("The decision has no reason.", field=field)
    return note.strip()


class PartitionRangeError(InvalidInputError):
    """So many months of partitions are not made at once."""

    code = "metering_partition_range"
    remedy = "Ask for 1 to 120 months."


class SharingRangeError(InvalidInputError):
    """The range is too long for one sharing report."""

    code = "metering_sharing_range"
    remedy = "Ask for 1 second to 31 days that have begun, or for one organization."


class UnbilledRangeError(InvalidInputError):
    """The range is too long for one report of unbilled devices."""

    code = "metering_unbilled_range"
    remedy = "Ask for 1 hour to 31 days, for less time, or for one cluster."


class SummaryRangeError(InvalidInputError):
    """The range is too long for one response."""

    code = "metering_summary_range"
    remedy = "Ask for 1 hour to 400 days, and tell apart by less."


class WindowNotFoundError(NotFoundError):
    """There is no such window, or the caller may not see it."""

    code = "metering_window_not_found"


class MeteringExceptionNotFoundError(NotFoundError):
    """There is no such exception, or the caller may not see it."""

    code = "metering_exception_not_found"


class CatalogueRulesInvalidError(InvalidInputError):
    """The proposed size rules cannot be used."""

    code = "metering_catalogue_rules_invalid"
    remedy = "Correct every field that is named, and look at the preview first."


class CatalogueChangedError(ConflictError):
    """A newer version was stored in the meantime."""

    code = "metering_catalogue_changed"
    remedy = "Look at the newest version, and propose your change on top of it."


class CatalogueSameError(ConflictError):
    """The proposed rules are those in force."""

    code = "metering_catalogue_same"
    remedy = "Nothing has to be done."


class DeviceEventEndedError(ConflictError):
    """Its end is recorded already, or it has not begun."""

    code = "metering_device_event_ended"
    remedy = "Nothing has to be done."


class CreditDecidedError(ConflictError):
    """It is accepted or dismissed already."""

    code = "metering_credit_decided"
    remedy = "A decision about a credit stands; correct it with an invoice correction."


class CreditWithdrawnError(ConflictError):
    """Corrections took back all the usage that was to be credited."""

    code = "metering_credit_withdrawn"
    remedy = "Nothing has to be done; what is not charged any more needs no credit."


class CreditStaleError(ConflictError):
    """The hour was corrected after the credit was proposed."""

    code = "metering_credit_stale"
    remedy = "Look again in a few minutes, when the proposal is brought up to date."


class FindingNotOpenError(ConflictError):
    """Only an open finding can be dismissed."""

    code = "metering_finding_not_open"
    remedy = "Nothing has to be done; a closed finding accuses nobody any more."
