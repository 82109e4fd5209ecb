"""A server of its own for each outage; only root can give it a disk of its own."""

import os

collect_ignore = [] if os.geteuid() == 0 else ["test_disk_full.py"]
