"""Collection of windows through a pooler."""

from tests.metering.services.collection.test_collection import *  # noqa: F403 - Its tests run here again.
from tests.metering.services.conftest import *  # noqa: F403 - Its tests run here again.
