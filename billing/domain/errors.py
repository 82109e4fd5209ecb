"""Refusals of billing: one class per refusal, each with a stable code and a remedy."""

from tenants.domain.errors import ConflictError, ForbiddenError, InvalidInputError


class CurrencyUnknownError(InvalidInputError):
    """The currency is not in ISO 4217."""

    code = "billing_currency_unknown"
    remedy = "Use three letters of an active ISO 4217 currency, such as EUR."


class CurrencyMismatchError(ConflictError):
    """Two amounts, or a price book and an organization, are in different currencies."""

    code = "billing_currency_mismatch"
    remedy = "Use a price book in the organization's billing currency."


class PriceInvalidError(InvalidInputError):
    """The price is negative, not a number, or finer than the ledger keeps."""

    code = "price_invalid"
    remedy = "Give a price from 0 with at most 10 digits before and 10 after the point."


class PriceKeyInvalidError(InvalidInputError):
    """The size or the price group cannot be priced."""

    code = "price_key_invalid"
    remedy = 'Use small, medium or large, and a group such as "H100/1g.10gb", "H100/*" or "*".'


class NotOnTheHourError(InvalidInputError):
    """A time that must be a whole UTC hour is not."""

    code = "not_on_the_hour"
    remedy = "Prices and price books change on whole UTC hours."


class PeriodLabelInvalidError(InvalidInputError):
    """The label does not name a month."""

    code = "period_label_invalid"
    remedy = 'Name the month as year and month, such as "2026-10".'


class PriceBookExistsError(ConflictError):
    """The slug is taken."""

    code = "price_book_exists"
    remedy = "Choose another slug, or set prices in the book that has it."


class DiscountInvalidError(InvalidInputError):
    """A price book cannot be this discount on that base book."""

    code = "discount_invalid"
    remedy = (
        "Give a base book in the same currency that has no base itself, and a discount above 0 and "
        "up to 100 percent with at most 2 digits after the point."
    )


class PriceOverlapError(ConflictError):
    """The key has a price that begins at that hour or later."""

    code = "price_overlap"
    remedy = (
        "Let it begin after the newest price of its key, or before the earliest; or name the price "
        "it replaces, and the reason."
    )


class PriceInUseError(ConflictError):
    """Hours the new price would cover are charged already."""

    code = "price_in_use"
    remedy = (
        "Let the new price begin after the last charged hour. To repair a wrong price, name the "
        "price it replaces, if there is one, and the reason; then reprice the months."
    )


class PriceChangeTooLargeError(ConflictError):
    """The price is more than 10 times, or less than a tenth of, the one before it."""

    code = "price_change_too_large"
    remedy = (
        "Publish it in a price draft, which shows what it changes and which another person "
        "publishes."
    )


class ReplacedPriceError(ConflictError):
    """The price or assignment that is to be replaced is not the one in force at that hour."""

    code = "price_not_replaced"
    remedy = "Name the one in force at that hour; `facts` has its id over REST."


class PriceInForceError(ConflictError):
    """A price or an assignment that is in force already cannot be withdrawn."""

    code = "price_in_force"
    remedy = "Replace it by another, with a reason, and reprice the months."


class PriceSupersededError(ConflictError):
    """The price or assignment was replaced or withdrawn."""

    code = "price_superseded"
    remedy = "Look for the one that is in force now."


class ReasonMissingError(InvalidInputError):
    """A decision about money needs its reason."""

    code = "billing_reason_missing"
    remedy = "Say in a sentence why."


def required_reason(reason: str, *, field: str = "reason", length_max: int | None = None) -> str:
    """Return the reason of a decision without the blanks around it.

    Raises:
        ReasonMissingError: It is empty, or too long.
    """
    why = reason.strip()
    if not why:
        raise ReasonMissingError("The decision has no reason.", field=field)
    if length_max is not None and len(why) > length_max:
        raise ReasonMissingError(f"The reason has more than {length_max} characters.", field=field)
    return why


class PriceDraftInvalidError(InvalidInputError):
    """A draft has no prices, too many, or two of one size and group."""

    code = "price_draft_invalid"
    remedy = "Give one price for each size and group, at most 500."


class PriceDraftDecidedError(ConflictError):
    """The draft of prices is published or rejected."""

    code = "price_draft_decided"
    remedy = "Make another draft."


class PriceDraftFourEyesError(ForbiddenError):
    """The proposer of a draft of prices may not publish it."""

    code = "price_draft_needs_four_eyes"
    remedy = "Ask another person with the role to publish it."


class NothingToRepriceError(ConflictError):
    """Everything in the month is charged at the published prices."""

    code = "nothing_to_reprice"
    remedy = "Replace the wrong price or assignment first, then reprice the month."


class RepricingUnpricedError(ConflictError):
    """Charged usage of the month has no published price now."""

    code = "repricing_unpriced"
    remedy = "Set a price for that hour, then reprice the month."


class RepricingStaleError(ConflictError):
    """Charges or prices have changed since the preview of the repricing."""

    code = "repricing_is_stale"
    remedy = "Reject it and reprice the month again."


class RepricingDecidedError(ConflictError):
    """The repricing is posted or rejected."""

    code = "repricing_decided"
    remedy = "Reprice the month again if its charges are still wrong."


class RepricingFourEyesError(ForbiddenError):
    """The requester of a repricing may not approve it."""

    code = "repricing_needs_four_eyes"
    remedy = "Ask another person with the role to approve it."


class AssignmentOwnerError(InvalidInputError):
    """An assignment is of one organization, of one customer class, or the default one."""

    code = "price_book_assignment_owner"
    remedy = "Name an organization or a customer class, or say that the book is the default one."


class AssignmentOverlapError(ConflictError):
    """A price book or a customer class is assigned from that hour or later."""

    code = "price_book_assignment_overlap"
    remedy = (
        "Let it begin after the newest assignment, or before the earliest; or name the assignment "
        "it replaces, and the reason."
    )


class AssignmentInUseError(ConflictError):
    """Hours the assignment would cover are charged already."""

    code = "price_book_assignment_in_use"
    remedy = (
        "Let the assignment begin after the last charged hour. To repair a wrong one, name the "
        "assignment it replaces, if there is one, and the reason; then reprice the months."
    )


class PeriodNotReadyError(ConflictError):
    """The period cannot be invoiced yet; `problems` holds every reason."""

    code = "period_not_ready"
    remedy = (
        "Settle each of the named reasons, then draft again. The month's page in the admin links"
        " where each is settled."
    )


class PeriodStateError(ConflictError):
    """The month is in another state."""

    code = "period_state"
    remedy = (
        "A month is open, sent to review, approved and closed, in this order. One that is not "
        "closed can be opened again with a reason."
    )


class UnusualCostError(ConflictError):
    """A month costs many times the usual, and no person has said why."""

    code = "period_cost_unusual"
    remedy = "Check its draft, and send it to review with the reason for the cost."


class PeriodHasChargesError(ConflictError):
    """A month with charges is not closed as nil."""

    code = "period_has_charges"
    remedy = "Draft its invoice and finalize it."


class NothingToInvoiceError(ConflictError):
    """The period has no charges."""

    code = "nothing_to_invoice"
    remedy = "Nothing has to be done: the service closes a month without use by itself."


class AmountTooLargeError(ConflictError):
    """A line or a total has more digits than the ledger keeps."""

    code = "invoice_amount_too_large"
    remedy = "Look for a wrong price or quantity: an amount has at most 16 digits before the point."


class InvoiceFinalError(ConflictError):
    """The invoice is final and is never changed."""

    code = "invoice_is_final"
    remedy = "Credit it, or void and replace it: POST /api/v1/invoices/{id}/credit/ or /void/."


class NotCreditableError(ConflictError):
    """Only a final invoice of the latest run is credited, and none twice."""

    code = "invoice_not_creditable"
    remedy = (
        "Choose the final invoice that is in force; finalize or discard its drafted run, or "
        "reverse its write-off, first."
    )


class CreditTooLargeError(ConflictError):
    """More would be given back than is left of a line."""

    code = "credit_too_large"
    remedy = "Give back at most what is left of the line after earlier credit notes."


class CreditInvalidError(InvalidInputError):
    """The credit names no line, a line of another invoice, or no amount above zero."""

    code = "credit_invalid"
    remedy = "Name lines of this invoice, each once, with an amount in its currency above zero."


class DraftStaleError(ConflictError):
    """Charges, lines, issuer or customer have changed since the draft was made."""

    code = "invoice_draft_is_stale"
    remedy = "Draft the period again and review it; a month in review is opened again first."


class FourEyesError(ForbiddenError):
    """Two people draft and finalize an invoice; the service is neither of them."""

    code = "invoice_needs_four_eyes"
    remedy = "Let one person draft and check it, and another finance administrator finalize it."


class TaxInvalidError(InvalidInputError):
    """A country, category, rate or exemption text cannot be on a document."""

    code = "tax_invalid"
    remedy = (
        "Give two letters of ISO 3166-1, a category S, Z, E, AE or O, a rate in percent for S only,"
        " and an exemption text for E, AE and O."
    )


class TaxRateExistsError(ConflictError):
    """A country and category have a rate from that day already."""

    code = "tax_rate_exists"
    remedy = "Withdraw the wrong one first, or choose another first day."


class TaxTreatmentExistsError(ConflictError):
    """The organization has a tax treatment from that day already."""

    code = "tax_treatment_exists"
    remedy = "Withdraw the wrong one first, or choose another first day."


class TaxWithdrawnError(ConflictError):
    """The tax rate or treatment is withdrawn already."""

    code = "tax_withdrawn"
    remedy = "Look for the one that is in force now."


class TaxRateMissingError(ConflictError):
    """An organization's country and category have no rate at the tax point of a document."""

    code = "tax_rate_missing"
    remedy = (
        "Set that rate from this day or an earlier one, or correct the tax treatment of the "
        "organization or recipient; then draft again."
    )


class TierInvalidError(InvalidInputError):
    """A tier schedule cannot be computed: bands, months, sizes or price groups are wrong."""

    code = "tier_schedule_invalid"
    remedy = (
        "Give bands whose bounds begin at 0 and rise, each with a discount from 0 to 100 percent, "
        "and sizes and price groups as prices have them."
    )


class TierOverlapError(ConflictError):
    """Two schedules of a book would give a discount on the same use."""

    code = "tier_schedule_overlap"
    remedy = "Choose other months, sizes or price groups, or withdraw the other one."


class TierMonthsClosedError(ConflictError):
    """A month in which the schedule would be in force is closed."""

    code = "tier_months_closed"
    remedy = (
        "Let it begin after the last closed month of the book's organizations, or name the "
        "schedule that it replaces, with a reason."
    )


class TierInForceError(ConflictError):
    """A tier schedule with closed months cannot be withdrawn."""

    code = "tier_schedule_in_force"
    remedy = "Publish another schedule that replaces it, with a reason."


class ReplacedTierError(ConflictError):
    """The tier schedule to replace is not the one in force."""

    code = "tier_schedule_replaced"
    remedy = "Name the schedule of the book that is in force in the first month of the new one."


class TierWithdrawnError(ConflictError):
    """The tier schedule is withdrawn already."""

    code = "tier_schedule_withdrawn"
    remedy = "Publish another one."
