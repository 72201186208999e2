"""Pages as programs read them."""

import datetime
import json

from fp8tune.lint.explain import explain
from fp8tune.lint.explain.text import data


def test_a_fact_with_a_config(config):
    page = json.loads(data(explain("fp8_tokens", config())))
    assert (page["kind"], page["derivation"]["value"]) == ("fact", [8192])
    assert page["formula"]["lines"][0] == (
        "if not vlm_arch_name: [micro_batch * train.seq_len]"
    )


def test_what_json_lacks_becomes_text(config):
    read = config("[train]\ngrad_clip_norm = inf\nseq_len = 16\n")
    said = json.loads(data(explain("train.grad_clip_norm", read)))
    assert said["value"]["value"] == "inf"
    page = explain("train.seq_len", read)
    node = page.value._replace(value=datetime.date(2026, 1, 1))
    said = json.loads(data(page._replace(value=node)))
    assert said["value"]["value"] == "2026-01-01"
