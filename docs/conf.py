# ruff: noqa: ARG001 (Sphinx calls with all arguments)
"""Settings of the documentation: ``sphinx-build -W docs site`` builds it."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))

from generate import write  # noqa: E402 (a module of this folder)

from fp8tune import __version__  # noqa: E402

project = "fp8tune"
release = version = __version__
copyright = "the fp8tune developers"  # noqa: A001 (Sphinx's name)
extensions = ["myst_parser", "sphinx_click", "sphinx_copybutton"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["site"]
nitpicky = True
html_theme = "furo"
html_title = f"fp8tune {version}"
html_static_path = ["images", "site.css", "filter.js"]
html_css_files = ["site.css"]
html_js_files = [("filter.js", {"defer": ""})]
copybutton_prompt_text = "$ "
html_copy_source = False
smartquotes = False
highlight_language = "text"

# The same links work in the repository and in the site.
PLACES = [
    (re.compile(r"\]\((?:\.\./)+benchmarks/results/(\w+)\.md"), r"](/evidence/\1.md"),
    (re.compile(r"\]\((?:\.\./)+CHANGELOG\.md"), "](/changelog.md"),
    (re.compile(r"\]\((?:\.\./)+benchmarks/README\.md"), r"](/evidence/index.md"),
]


UNKNOWN = "ADDRESS-OF-FP8TUNE"
"""The repository's address until ``[project.urls]`` in pyproject.toml has it."""

with (DOCS.parent / "pyproject.toml").open("rb") as file:
    REPOSITORY = tomllib.load(file)["project"].get("urls", {}).get("Repository", "")


def _site_links(app: Sphinx, docname: str, source: list[str]) -> None:
    for pattern, place in PLACES:
        source[0] = pattern.sub(place, source[0])
    if REPOSITORY:
        name = REPOSITORY.removeprefix("https://github.com/")
        source[0] = source[0].replace(f"uses: {UNKNOWN}", f"uses: {name}")
        source[0] = source[0].replace(UNKNOWN, REPOSITORY)


def _accessible(
    app: Sphinx, page: str, template: str, context: dict[str, Any], tree: object
) -> None:
    """Give what scrolls to the keyboard, and headings of the sidebar their level."""
    for part, before, after in (
        ("body", "<pre>", '<pre tabindex="0">'),
        ("body", '<div class="table-wrapper', '<div tabindex="0" class="table-wrapper'),
        ("furo_navigation_tree", '"heading"', '"heading" aria-level="2"'),
    ):
        context[part] = context.get(part, "").replace(before, after)


def _examples_as_code(app: Sphinx, ctx: object, lines: list[str]) -> None:
    """Show the examples of a help text as code, not as lines of text."""
    found: list[str] = []
    for line in lines:
        if line.startswith("|   "):
            found.append(line.removeprefix("|"))
        elif line.startswith("| ") and line.endswith(":"):
            found += ["", line.removeprefix("| ") + ":", ""]
        else:
            found.append(line)
    lines[:] = found


def setup(app: Sphinx) -> None:
    """Write the generated pages before Sphinx looks for sources."""
    write(DOCS)
    app.connect("source-read", _site_links)
    app.connect("html-page-context", _accessible, priority=900)
    app.connect("sphinx-click-process-description", _examples_as_code)
