"""How far a final document is settled, in the words that are shown."""

from enum import StrEnum


class PaymentStatus(StrEnum):
    """What is left to do about a document; a draft has none."""

    OPEN = "open"
    PART_PAID = "part_paid"
    PAID = "paid"
    OVERDUE = "overdue"
    DISPUTED = "disputed"
    WRITTEN_OFF = "written_off"
    CREDITED = "credited"
    CARRIED = "carried"
