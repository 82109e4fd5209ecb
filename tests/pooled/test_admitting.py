"""Admission through a pooler: what one pod asks, many at once, and answers that come too late."""

from tests.quotas.conftest import *  # noqa: F403 - Its tests run here again.
from tests.quotas.services.conftest import *  # noqa: F403 - Its tests run here again.

# isort: split
# After the fixtures of their folder, which they replace by their own.
from tests.quotas.services.admission.test_admission import *  # noqa: F403 - Its tests run here again.
from tests.quotas.services.admission.test_concurrency import *  # noqa: F403 - Its tests run here again.
