"""Several workers at once and accrual with what races with it, through a pooler."""

from tests.billing.conftest import *  # noqa: F403 - Its tests run here again.
from tests.billing.services.test_accrual import *  # noqa: F403 - Its tests run here again.
from tests.billing.services.test_races import *  # noqa: F403 - Its tests run here again.
from tests.metering.services.collection.test_concurrency import *  # noqa: F403 - Its tests run here again.
