"""``fp8tune lsp`` where its packages are not installed."""

import sys


def test_without_its_packages_it_says_what_to_type(fp8tune, monkeypatch):
    monkeypatch.delitem(sys.modules, "fp8tune.lsp.server", raising=False)
    monkeypatch.setitem(sys.modules, "pygls.lsp.server", None)
    ended = fp8tune("lsp")
    assert (ended.code, ended.out, ended.err) == (
        2,
        "",
        "fp8tune: lsp needs pygls: pip install '.[lsp]' in a clone of fp8tune\n",
    )
