"""Check the built site in headless Chromium: heights of pages, and what axe finds.

``python docs/check_site.py SITE [PART...]`` prints for each page whose path contains a
part its height in pixels at both widths, and the serious and critical faults by axe at
both widths, light and dark. Without a part it looks at the tables of pages
(``index.html``) and at one of ``SAMPLE`` others; ``html`` is a part of all paths. Exit
code 1: a page is too high or has a fault, 75: there is no Chromium here.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, sync_playwright

WIDTHS = (1280, 390)
HIGHEST = 20_000
"""Pixels that a page may be high."""

SAMPLE = 40

FILTERS = ("compile", "error", "torchtitan")
"""Words, severity and trainer with which the table of rules is tried."""


def main() -> int:
    """Print a line for each page, and return whether all are right."""
    site, parts = Path(sys.argv[1]).resolve(), sys.argv[2:]
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if not chromium:
        print("docs/check_site.py: no Chromium here, nothing was checked")
        return 75
    paths = [path.relative_to(site).as_posix() for path in site.rglob("*.html")]
    wrong = 0
    with sync_playwright() as playwright:
        options = ["--no-sandbox"]  # of a container; the pages are ours
        browser = playwright.chromium.launch(executable_path=chromium, args=options)
        page = browser.new_page()
        for number, path in enumerate(sorted(paths)):
            sampled = path.endswith("index.html") or number % SAMPLE == 0
            if not (any(part in path for part in parts) if parts else sampled):
                continue
            page.goto((site / path).as_uri())
            heights = [height(page, width) for width in WIDTHS]
            faults = sorted(set(faults_of(page)))
            print(path, *heights, *faults or ["-"], flush=True)
            wrong += max(heights) > HIGHEST or bool(faults)
        faults = list(filter_faults(page, site / "rules/index.html"))
        print("rules/index.html: filters", *faults or ["-"])
        wrong += bool(faults)
    print(f"{wrong} of {len(paths)} pages are wrong")
    return int(wrong > 0)


def height(page: Page, width: int) -> int:
    """The height of a page at a width."""
    page.set_viewport_size({"width": width, "height": 900})
    return int(page.evaluate("document.documentElement.scrollHeight"))


def faults_of(page: Page) -> Iterator[str]:
    """Yield what a page does wrong at a width in a theme."""
    for width in WIDTHS:
        height(page, width)
        if page.evaluate("document.documentElement.scrollWidth") > width:
            yield f"{width}: wider than the screen"
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            found = Axe().run(page, options={"resultTypes": ["violations"]})
            for fault in found.response["violations"]:
                if fault["impact"] in ("serious", "critical"):
                    node = fault["nodes"][0]["target"]
                    yield f"{width} {theme}: {fault['id']} {node}"


def filter_faults(page: Page, table: Path) -> Iterator[str]:
    """Yield the rules that the filters of the table hide or show wrongly."""
    words, severity, trainer = FILTERS
    page.goto(table.as_uri())
    page.get_by_label("Words").fill(words)
    page.get_by_label("Severity").select_option(severity)
    page.get_by_label("Trainer").select_option(trainer)
    for row in page.locator(".filtered tbody tr").all():
        rule, code, summary, level, category, trainers = [
            cell.strip() for cell in row.locator("td").all_text_contents()
        ]
        text = " ".join((rule, code, summary, level, category, trainers)).lower()
        fits = words in text and level == severity
        fits = fits and bool({"all", trainer} & set(trainers.split(", ")))
        if fits != row.is_visible():
            yield rule


if __name__ == "__main__":
    sys.exit(main())
