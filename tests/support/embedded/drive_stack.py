"""Run the whole stack of one state folder until a signal comes; started by tests."""

import os
import sys
import time
from pathlib import Path

from embedded.signals import orderly_end
from embedded.stack import Stack


def main(state: Path, *, is_whole: bool) -> None:
    """Say READY and the address once everything answers, then wait."""
    with orderly_end(), Stack(state) as stack:
        environment = stack.start_datastores()
        if is_whole:
            stack.migrate()
            stack.start_workers(processes=1)
            stack.start_web(workers=1)
        sys.stdout.write(f"READY {environment['PUBLIC_URL']} {environment['DATABASE_URL']}\n")
        sys.stdout.flush()
        time.sleep(600)


if __name__ == "__main__":
    os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings.development"
    main(Path(sys.argv[1]), is_whole=sys.argv[2] == "whole")
