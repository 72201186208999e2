"""A page as HTML, and what all pages keep to."""

import base64
import hashlib
import re
from html.parser import HTMLParser

from fp8tune.report.html import draw_plots, render

VOID = {"meta", "link", "br", "hr", "img", "input"}


class Checker(HTMLParser):
    """Tags are closed in turn; what is inside is gathered."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.ids, self.links = [], [], [], []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags.append((tag, given))
        self.ids += [value for name, value in attrs if name == "id"]
        self.links += [v for k, v in attrs if k in ("href", "src", "xlink:href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def html(report):
    return render(report, draw_plots(report))


def check_script(text):
    """There is one script, ours, and the page lets a browser run no other."""
    (script,) = re.findall("<script.*?>(.*?)</script>", text, re.DOTALL)
    assert "<script>" in text
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src"
    assert f"{policy} 'sha256-{digest}'" in text


def checked(text):
    checker = Checker()
    checker.feed(text)
    assert checker.open == []
    assert len(checker.ids) == len(set(checker.ids))
    assert all(link[0] == "#" for link in checker.links)
    assert {link[1:] for link in checker.links} <= set(checker.ids)
    names = {tag for tag, _ in checker.tags}
    assert not names & {"img", "iframe", "object", "link", "form"}
    check_script(text)
    events = [k for _, attrs in checker.tags for k in attrs if k.startswith("on")]
    assert events == []
    return checker
