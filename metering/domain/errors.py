"""Refusals of metering, one class each."""

from tenants.domain.errors import ConflictError, InvalidInputError, NotFoundError


class ClaimLostError(ConflictError):
    """Another worker took the window over, or the lease ran out."""

    code = "metering_claim_lost"
    remedy = "Nothing was written; the window is metered by whoever holds it now."


class WindowNotReconciledError(ConflictError):
    """Only a reconciled window is sealed."""

    code = "metering_window_not_reconciled"
    remedy = "Wait until the window is collected, and resolve what is open about it."


class WindowSealedError(ConflictError):
    """A sealed window is not metered again."""

    code = "metering_window_sealed"
    remedy = "A sealed window never changes; resolve its exceptions with a reason."


class WindowStateError(ConflictError):
    """The window is not in a state that allows this."""

    code = "metering_window_state"
    remedy = "Look at the window's state; only some allow this."


class ExceptionResolvedError(ConflictError):
    """Somebody has resolved it already."""

    code = "metering_exception_resolved"
    remedy = "Nothing has to be done."


class NoteMissingError(InvalidInputError):
    """A person's decision about money needs its reason."""

    code = "metering_note_missing"
    remedy = "Say in a sentence why."


class PartitionRangeError(InvalidInputError):
    """So many months of partitions are not made at once."""

    code = "metering_partition_range"
    remedy = "Ask for 1 to 120 months."


class SummaryRangeError(InvalidInputError):
    """So much is not added up in one answer."""

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
    """Somebody has stored a newer version in the meantime."""

    code = "metering_catalogue_changed"
    remedy = "Look at the newest version, and propose your change on top of it."


class CatalogueSameError(ConflictError):
    """The proposed rules are those in force."""

    code = "metering_catalogue_same"
    remedy = "Nothing has to be done."
