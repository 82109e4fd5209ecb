"""Set-ups in which a few pods contradict the clock of their answer, or its one cluster."""

from dataclasses import replace

from tests.contract.usage_source.completeness_setups import BUSY, PODS
from tests.contract.usage_source.hostile import HOUR, Exporter, Pod, Setup

ALONE = Exporter("10.0.0.9:8080")
WRONG = tuple(
    Pod(f"wrong-{late}", bound_at=8000, gone_at=10_000, created_late=late) for late in (120, 700)
)
CREATED_LATE = Setup("created-late", (*BUSY, *WRONG), (ALONE,))
"""Of 26 new pods two are said to have been created after they were shown."""
FEW_NEW = Setup("few-new", (*PODS, Pod("new", bound_at=8100), WRONG[1]), (ALONE,))
MANY_LATE = Setup(
    "many-late",
    (
        *BUSY,
        *(replace(WRONG[0], uid=f"wrong-{number}", bound_at=8000 + number) for number in range(5)),
    ),
    (ALONE,),
)
"""Five of them, which agree with each other and not with most."""
SETUPS = (CREATED_LATE, FEW_NEW, MANY_LATE)
HOUR_OF = 2 * HOUR
