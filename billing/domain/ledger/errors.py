"""Refusals of the journal and of what happens beside final documents."""

from tenants.domain.errors import ConflictError, ForbiddenError, InvalidInputError


class AccountingMonthError(ConflictError):
    """The accounting month is not over, or closed already."""

    code = "accounting_month"
    remedy = "Name a month that is over and later than the last closed one."


class PaymentInvalidError(InvalidInputError):
    """Account, reference, amount or date of a payment cannot be kept."""

    code = "payment_invalid"
    remedy = "Send the bank's account and reference, an amount above zero, and the day of booking."


class PaymentExistsError(ConflictError):
    """A payment with this reference on this account is recorded."""

    code = "payment_exists"
    remedy = "Look for the payment by its bank reference; each is recorded once."


class PaymentNotAllocatableError(ConflictError):
    """Payment and document do not fit, or nothing is left of one of them."""

    code = "payment_not_allocatable"
    remedy = "Choose a final invoice of the payer in the payment's currency that is not paid yet."


class AllocationTooLargeError(ConflictError):
    """More would be allocated or paid back than is left."""

    code = "allocation_too_large"
    remedy = "Name at most what is free of the payment and open of the document."


class PaymentReturnedError(ConflictError):
    """The payment is reversed or refunded, or is none that can be."""

    code = "payment_not_returnable"
    remedy = "Choose a payment received from a customer, without a reversal or refund so far."


class NothingCarriedError(ConflictError):
    """No balance that is owed to the customer is carried."""

    code = "nothing_carried"
    remedy = "Name a document of the issuer and recipient whose balance is below zero."


class PaymentSettledError(ConflictError):
    """Something of the payment is allocated, so that its payer stays."""

    code = "payment_settled"
    remedy = "Release the allocations of the payment first."


class OpeningBalanceInvalidError(InvalidInputError):
    """Reference, amount or a date of an opening balance cannot be kept."""

    code = "opening_balance_invalid"
    remedy = (
        "Send the number in the system before, an amount in whole minor units, above zero with "
        "due_on or below zero without, and a day that is not in the future."
    )


class OpeningBalanceExistsError(ConflictError):
    """The organization has an opening balance with this reference."""

    code = "opening_balance_exists"
    remedy = "Look for it by its reference; each is recorded once."


class ReminderStopError(ConflictError):
    """Reminders of the document are stopped or continued already, or there are none."""

    code = "reminder_stop"
    remedy = "Choose a final invoice or debit note; look at its last stop."


class DocumentDeliveryInvalidError(InvalidInputError):
    """Document, recipient or time of a delivery cannot be kept."""

    code = "document_delivery_invalid"
    remedy = "Choose a final document, name the recipient, and a time that is not in the future."


class BankFileInvalidError(InvalidInputError):
    """The file is no camt.053 or CSV, too large, or not UTF-8."""

    code = "bank_file_invalid"
    remedy = "Send camt.053 or CSV with a header line, in UTF-8, of at most 5 MiB and 10,000 rows."


class StatementTooLongError(InvalidInputError):
    """The statement has more lines than are answered at once."""

    code = "statement_too_long"
    remedy = "Ask for a shorter time."


class NothingToExportError(ConflictError):
    """Every entry of the month is in a batch."""

    code = "nothing_to_export"
    remedy = "Fetch the batches of the month; a new one is made once something more is posted."


class NotDisputableError(ConflictError):
    """The document is not final, nothing is left of it, or it has an open dispute."""

    code = "invoice_not_disputable"
    remedy = "Choose a final invoice or debit note, or reply to the dispute that is open."


class DisputeDecidedError(ConflictError):
    """The dispute is withdrawn, rejected or accepted already."""

    code = "dispute_decided"
    remedy = "Open a new dispute of what is left of the document."


class DisputeTooLargeError(ConflictError):
    """More is accepted than is disputed."""

    code = "dispute_too_large"
    remedy = "Accept at most what is disputed; give back more by a credit note of its own."


class DisputeMessageInvalidError(InvalidInputError):
    """The message is empty or too long."""

    code = "dispute_message_invalid"
    remedy = "Write 1 to 2,000 characters."


class NotWritableOffError(ConflictError):
    """The document is not final, or has a proposed write-off or a credit note in the making."""

    code = "write_off_not_possible"
    remedy = (
        "Choose a final invoice or debit note; decide its proposal or drafted credit note first."
    )


class WriteOffTooLargeError(ConflictError):
    """The amount is not above zero, finer than the currency, or more than is open."""

    code = "write_off_too_large"
    remedy = "Write off at most what is open of the document."


class WriteOffStateError(ConflictError):
    """The write-off is decided, or was never posted."""

    code = "write_off_state"
    remedy = "Confirm or reject a proposed write-off once; reverse a posted one once."


class WriteOffFourEyesError(ForbiddenError):
    """The proposer of a write-off may not confirm it."""

    code = "write_off_needs_another_person"
    remedy = "Let another finance administrator confirm it."
