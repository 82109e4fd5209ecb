"""The table of who reaches what: every operation, every caller, every place.

A row is three words for the places own (Acme's LLM), other (Umbrella's Virus) and nonexistent. A
word has a letter for each caller, in the order of `CALLERS`:

    y  done, or told            f  forbidden: it is seen, and this may not be done
    e  a list without rows      n  not found: it is not seen, or is not there
    r  allowed, but refused for the state it is in

Carol is a member of LLM, Bob leads it, Alice administers Acme, and a robot does too, through a
token for nothing but reading invoices. Mallory administers Umbrella. Dora is the finance admin,
Ann the auditor, Frank the platform admin. Who does not say who calls is refused everywhere but at
`PUBLIC`.
"""

from typing import Final

CALLERS: Final = ("carol", "bob", "alice", "robot", "mallory", "dora", "ann", "frank")
PUBLIC: Final = frozenset({"GET docs/", "GET schema/"})
REACH: Final[dict[str, tuple[str, str, str]]] = {
    "DELETE invoices/pk/": ("nnffnyff", "nnnnfyff", "nnnnnnnn"),
    "DELETE memberships/pk/": ("yyynnffy", "nnnnyffy", "nnnnnnnn"),
    "DELETE quota-limits/pk/": ("ffynnffy", "nnnnyffy", "nnnnnnnn"),
    "GET accrual-exceptions/": ("eyyeeyyy", "eeeeyyyy", "eeeeeeee"),
    "GET accrual-exceptions/pk/": ("nyynnyyy", "nnnnyyyy", "nnnnnnnn"),
    "GET api-tokens/": ("eeyeeeey", "eeeeyeey", "eeeeeeee"),
    "GET api-tokens/pk/": ("nnynnnny", "nnnnynny", "nnnnnnnn"),
    "GET audit-entries/": ("eeyeeyyy", "eeeeyyyy", "eeeeeeee"),
    "GET audit-entries/pk/": ("nnynnyyy", "nnnnyyyy", "nnnnnnnn"),
    "GET billing-periods/": ("eeeeeyyy", "eeeeeyyy", "eeeeeeee"),
    "GET billing-periods/pk/": ("nnnnnyyy", "nnnnnyyy", "nnnnnnnn"),
    "GET capacity-records/": ("eeeeeyyy", "eeeeeyyy", "eeeeeyyy"),
    "GET charges/": ("eyyeeyyy", "eeeeyyyy", "eeeeeeee"),
    "GET charges/pk/": ("nyynnyyy", "nnnnyyyy", "nnnnnnnn"),
    "GET clusters/": ("eeeeeyyy", "eeeeeyyy", "eeeeeyyy"),
    "GET clusters/pk/": ("nnnnnyyy", "nnnnnyyy", "nnnnnnnn"),
    "GET enforcement-targets/": ("eeeeeyyy", "eeeeeyyy", "eeeeeeee"),
    "GET enforcement-targets/pk/": ("nnnnnyyy", "nnnnnyyy", "nnnnnnnn"),
    "GET invoices/": ("eeyyeyyy", "eeeeyyyy", "eeeeeeee"),
    "GET invoices/pk/": ("nnyynyyy", "nnnnyyyy", "nnnnnnnn"),
    "GET invoices/pk/csv/": ("nnyynyyy", "nnnnyyyy", "nnnnnnnn"),
    "GET invoices/pk/pdf/": ("nnyynyyy", "nnnnyyyy", "nnnnnnnn"),
    "GET me/": ("yyyyyyyy", "yyyyyyyy", "yyyyyyyy"),
    "GET memberships/": ("eeyyeyyy", "eeeeyyyy", "eeeeeeee"),
    "GET memberships/pk/": ("yyynnyyy", "nnnnyyyy", "nnnnnnnn"),
    "GET metering-exceptions/": ("eyyeeyyy", "eeeeyyyy", "eeeeeeee"),
    "GET metering-exceptions/pk/": ("nyynnyyy", "nnnnyyyy", "nnnnnnnn"),
    "GET metering-windows/": ("eeeeeyyy", "eeeeeyyy", "eeeeeyyy"),
    "GET metering-windows/pk/": ("nnnnnyyy", "nnnnnyyy", "nnnnnnnn"),
    "GET namespace-bindings/": ("eyyeeyyy", "eeeeyyyy", "eeeeeeee"),
    "GET namespace-bindings/pk/": ("nyynnyyy", "nnnnyyyy", "nnnnnnnn"),
    "GET organizations/": ("yyyeyyyy", "yyyeyyyy", "yyyeyyyy"),
    "GET organizations/pk/": ("yyynnyyy", "nnnnyyyy", "nnnnnnnn"),
    "GET price-book-assignments/": ("eyyeeyyy", "eeeeyyyy", "eeeeeeee"),
    "GET price-book-assignments/pk/": ("nyynnyyy", "nnnnyyyy", "nnnnnnnn"),
    "GET price-books/": ("eyyeyyyy", "eyyeyyyy", "eyyeyyyy"),
    "GET price-books/pk/": ("nyynnyyy", "nnnnyyyy", "nnnnnnnn"),
    "GET prices/": ("eyyeeyyy", "eeeeyyyy", "eeeeeeee"),
    "GET prices/pk/": ("nyynnyyy", "nnnnyyyy", "nnnnnnnn"),
    "GET projects/": ("yyyeeyyy", "eeeeyyyy", "eeeeeeee"),
    "GET projects/pk/": ("yyynnyyy", "nnnnyyyy", "nnnnnnnn"),
    "GET quota-limits/": ("yyyeeyyy", "eeeeyyyy", "eeeeeeee"),
    "GET quota-limits/pk/": ("yyynnyyy", "nnnnyyyy", "nnnnnnnn"),
    "GET quota-requests/": ("yyyeeyyy", "eeeeyyyy", "eeeeeeee"),
    "GET quota-requests/pk/": ("yyynnyyy", "nnnnyyyy", "nnnnnnnn"),
    "GET quota-usage/": ("yyyeeyyy", "eeeeyyyy", "eeeeeeee"),
    "GET service-accounts/": ("eeyeeyyy", "eeeeyyyy", "eeeeeeee"),
    "GET service-accounts/pk/": ("nnynnyyy", "nnnnyyyy", "nnnnnnnn"),
    "GET usage-records/": ("yyyeeyyy", "eeeeyyyy", "eeeeeeee"),
    "GET usage-records/pk/": ("yyynnyyy", "nnnnyyyy", "nnnnnnnn"),
    "GET usage-summary/": ("yyyeeyyy", "eeeeyyyy", "eeeeeeee"),
    "PATCH clusters/pk/": ("nnnnnffy", "nnnnnffy", "nnnnnnnn"),
    "PATCH organizations/pk/": ("fffnnffy", "nnnnfffy", "nnnnnnnn"),
    "PATCH projects/pk/": ("ffynnffy", "nnnnyffy", "nnnnnnnn"),
    "PATCH quota-limits/pk/": ("ffynnffy", "nnnnyffy", "nnnnnnnn"),
    "POST api-tokens/": ("nnynnffy", "nnnnyffy", "nnnnnnnn"),
    "POST api-tokens/pk/revoke/": ("nnynnnny", "nnnnynny", "nnnnnnnn"),
    "POST billing-periods/": ("fffnnyff", "nnnnfyff", "nnnnnnnn"),
    "POST clusters/": ("fffffffy", "fffffffy", "fffffffy"),
    "POST clusters/pk/close/": ("nnnnnffy", "nnnnnffy", "nnnnnnnn"),
    "POST invoices/": ("nnnnnyff", "nnnnnyff", "nnnnnnnn"),
    "POST invoices/pk/finalize/": ("nnffnyff", "nnnnfyff", "nnnnnnnn"),
    "POST memberships/": ("fyynnffy", "nnnnyffy", "nnnnnnnn"),
    "POST metering-exceptions/pk/resolve/": ("nffnnffy", "nnnnfffy", "nnnnnnnn"),
    "POST metering-windows/pk/decide/": ("nnnnnffr", "nnnnnffr", "nnnnnnnn"),
    "POST metering-windows/pk/retry/": ("nnnnnffy", "nnnnnffy", "nnnnnnnn"),
    "POST namespace-bindings/": ("fffnnffy", "nnnnfffy", "nnnnnnnn"),
    "POST namespace-bindings/pk/close/": ("nffnnffr", "nnnnfffr", "nnnnnnnn"),
    "POST organizations/": ("fffffffy", "fffffffy", "fffffffy"),
    "POST organizations/pk/close/": ("fffnnffr", "nnnnfffr", "nnnnnnnn"),
    "POST price-book-assignments/": ("fffnnyff", "nnnnfyff", "nnnnnnnn"),
    "POST price-books/": ("fffffyff", "fffffyff", "fffffyff"),
    "POST prices/": ("nffnnyff", "nnnnfyff", "nnnnnnnn"),
    "POST projects/": ("ffynnffy", "nnnnyffy", "nnnnnnnn"),
    "POST projects/pk/close/": ("ffynnffy", "nnnnyffy", "nnnnnnnn"),
    "POST quota-limits/": ("ffynnffy", "nnnnyffy", "nnnnnnnn"),
    "POST quota-requests/": ("fyynnfff", "nnnnyfff", "nnnnnnnn"),
    "POST quota-requests/pk/approve/": ("ffynnffy", "nnnnfffy", "nnnnnnnn"),
    "POST quota-requests/pk/cancel/": ("fyynnfff", "nnnnyfff", "nnnnnnnn"),
    "POST quota-requests/pk/reject/": ("ffynnffy", "nnnnfffy", "nnnnnnnn"),
    "POST service-accounts/": ("ffynnffy", "nnnnyffy", "nnnnnnnn"),
    "POST service-accounts/pk/close/": ("nnynnffy", "nnnnyffy", "nnnnnnnn"),
    "PUT quota-limits/pk/": ("ffynnffy", "nnnnyffy", "nnnnnnnn"),
}
