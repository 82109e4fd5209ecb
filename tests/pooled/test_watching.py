"""The watch of a cluster, written through a pooler."""

from tests.metering.services.allocations.conftest import *  # noqa: F403 - Its tests run here again.
from tests.metering.services.allocations.test_concurrency import *  # noqa: F403 - Its tests run here again.
from tests.metering.services.allocations.test_events import *  # noqa: F403 - Its tests run here again.
from tests.metering.services.allocations.test_lists import *  # noqa: F403 - Its tests run here again.
from tests.metering.services.allocations.test_nodes import *  # noqa: F403 - Its tests run here again.
