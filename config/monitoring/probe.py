"""Container probe: exit status 0 when a health endpoint answers 200.

    python -m config.monitoring.probe URL

It is here because a small image has neither curl nor a shell to rely on.
"""

import sys
import urllib.error
import urllib.request
from http import HTTPStatus

TIMEOUT_SECONDS = 4


def main(arguments: list[str]) -> int:
    """Request one URL; return the exit status."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m config.monitoring.probe URL\n")
        return 2
    request = urllib.request.Request(  # noqa: S310 - The operator's own URL.
        arguments[0], headers={"X-Forwarded-Proto": "https"}
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310 - As above.
            status = answer.status
    except (OSError, ValueError, urllib.error.URLError) as error:
        sys.stderr.write(f"{arguments[0]}: {error}\n")
        return 1
    return 0 if status == HTTPStatus.OK else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
