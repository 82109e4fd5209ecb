"""The pictures of README and docs, taken of a running demo of this version by a real Chromium.

bin/pictures.py   write docs/pictures/*.png
"""

import json
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
STATE = ROOT / "var"
PICTURES = ROOT / "docs" / "pictures"
CHROMIUM = "/usr/bin/chromium"
FLAGS = ("--no-sandbox", "--disable-gpu", "--hide-scrollbars")
WIDTH = 1440
CALENDAR = "/admin/metering/meteringwindow/calendar/?cluster=hopper&month={month}"
FINANCE, PLATFORM, LEAD = "dora", "frank", "lukas"
SHOTS: dict[str, tuple[str, str, int]] = {
    "dashboard": (FINANCE, "/admin/?month={month}", 1100),
    "costs": (FINANCE, "/admin/billing/dailycost/costs/?range=last_month", 1100),
    "waste": (FINANCE, "/admin/billing/charge/waste/", 900),
    "calendar": (PLATFORM, CALENDAR, 980),
    "quota-board": (PLATFORM, "/admin/quotas/quotalimit/board/", 1100),
    "tenant-home": (LEAD, "/app/", 1100),
}
"""By name of the file: the person, the page, and how many pixels of it are shown."""


def main() -> int:
    """Take every picture; print what is written."""
    try:
        url = json.loads((STATE / "environment.json").read_text())["PUBLIC_URL"]
        world = json.loads((STATE / "demo" / "world.json").read_text())
    except FileNotFoundError:
        sys.stderr.write("No demo runs: `make pictures` starts one.\n")
        return 1
    month = f"{world['year']}-{world['month']:02}"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        for person in (FINANCE, PLATFORM, LEAD):
            page = browser.new_page(viewport={"width": WIDTH, "height": 900})
            sign_in(page, url, person, world["password"])
            for name, (viewer, path, height) in SHOTS.items():
                if viewer == person:
                    page.goto(url + path.format(month=month), wait_until="networkidle")
                    write(page, name, height)
            if person == FINANCE:
                page.goto(f"{url}/admin/billing/invoice/", wait_until="networkidle")
                page.locator("#result_list tbody th a").first.click()
                page.wait_for_load_state("networkidle")
                write(page, "invoice", 1100)
            page.close()
        browser.close()
    return 0


def sign_in(page: Page, url: str, person: str, password: str) -> None:
    """Sign in by the form."""
    page.goto(f"{url}/accounts/sign-in/")
    page.fill("input[name=username]", person)
    page.fill("input[name=password]", password)
    page.locator("button[type=submit]").first.click()
    page.wait_for_load_state("networkidle")


def write(page: Page, name: str, height: int) -> None:
    """Write the upper part of a page as a picture."""
    page.set_viewport_size({"width": WIDTH, "height": height})
    page.wait_for_timeout(500)
    page.screenshot(path=PICTURES / f"{name}.png")
    sys.stdout.write(f"docs/pictures/{name}.png\n")


if __name__ == "__main__":
    sys.exit(main())
