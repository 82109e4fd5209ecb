"""Variables whose parts are `name=value`."""

import re

from tenants.domain.currencies import MINOR_DIGITS


def clients_of(part: str) -> tuple[str, tuple[str, ...]]:
    """Return a cluster and the names of `cluster=name|name`."""
    cluster, _, names_text = part.strip().partition("=")
    names = tuple(name.strip() for name in names_text.split("|") if name.strip())
    if not cluster or not names:
        raise ValueError(f"{part.strip()} is not cluster=name or cluster=name|name.")
    return cluster.strip(), names


def amount_of(part: str) -> tuple[str, str]:
    """Return a currency and an amount of `EUR=5`, above zero and no finer than the currency."""
    currency, _, amount = (text.strip() for text in part.partition("="))
    digits = MINOR_DIGITS.get(currency, -1)
    if not re.fullmatch(rf"[0-9]{{1,12}}(\.[0-9]{{1,{max(digits, 1)}}})?", amount) or digits < 0:
        raise ValueError(f"{part.strip()} is not an amount of a currency, such as EUR=5.")
    return currency, amount
