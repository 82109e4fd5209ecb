"""The watch of a cluster, written through a pooler."""

from tests.metering.services.watching.conftest import *  # noqa: F403 - Its tests run here again.
from tests.metering.services.watching.test_events import *  # noqa: F403 - Its tests run here again.
from tests.metering.services.watching.test_lists import *  # noqa: F403 - Its tests run here again.
from tests.metering.services.watching.test_nodes import *  # noqa: F403 - Its tests run here again.
from tests.metering.services.watching.test_watch_concurrency import *  # noqa: F403 - Its tests run here again.
