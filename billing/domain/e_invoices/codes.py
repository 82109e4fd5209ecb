"""Codes that EN 16931 checks, and the shapes of VAT identifiers and IBANs."""

import re
from typing import Final

# Source: ISO 3166-1 as of 2026, with Kosovo's and Northern Ireland's user-assigned codes, which the
# code list of EN 16931 has.
_COUNTRIES: Final = (
    "AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ "
    "BR BS BT BV BW BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM "
    "DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS "
    "GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN "
    "KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ "
    "MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM "
    "PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV "
    "SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI "
    "VN VU WF WS XI XK YE YT ZA ZM ZW"
)
COUNTRIES: Final = frozenset(_COUNTRIES.split())
VAT_PREFIXES: Final = COUNTRIES | {"EL"}
"""Greece has its own. Source: EN 16931, BR-CO-09."""
_VAT_ID: Final = re.compile(r"[A-Z]{2}[0-9A-Za-z+*.]{2,}", re.ASCII)
_IBAN: Final = re.compile(r"[A-Z]{2}[0-9]{2}[0-9A-Z]{11,30}", re.ASCII)
_IBAN_RULE: Final = 97


def is_vat_id(number: str) -> bool:
    """Whether a tax number, without spaces, begins with a country and so is a VAT identifier."""
    return bool(_VAT_ID.fullmatch(number)) and number[:2] in VAT_PREFIXES


def is_iban(number: str) -> bool:
    """Whether an account number, without spaces, is an IBAN with the right check digits."""
    if not _IBAN.fullmatch(number):
        return False
    digits = "".join(str(int(character, 36)) for character in number[4:] + number[:4])
    return int(digits) % _IBAN_RULE == 1
