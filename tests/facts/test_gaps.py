"""Every reason why memory or speed is unknown has words."""

import ast
import inspect
import textwrap

from fp8tune.facts.gaps import GAPS, NEEDED
from fp8tune.facts.gpus import members

JUDGED = ("memory.fit", "memory.high_gib", "speed.tokens_per_second", "speed.fp8_gain")

SAID_OTHERWISE = {
    "vlm_grid": "image tokens that are no square are refused",
    "vlm_moma_experts": "a table of experts that does not fit is refused",
    "vlm.arch": "it has a default",
    "vlm.max_text_len": "it has a default",
    "video.max_frames": "it has a default",
    "gpu.compute_capability": "every GPU of the table has one",
}


def raised(vocabulary, names):
    """What the functions behind some facts may be unknown for."""
    seen, found = set(), set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        name = vocabulary.spelled.get(name, name)
        if name in seen or name not in vocabulary.computed:
            continue
        seen.add(name)
        source = vocabulary.computed[name]
        waiting += source.parameters
        tree = ast.parse(textwrap.dedent(inspect.getsource(source.call)))
        found |= {
            node.args[0].value
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and getattr(node.func, "id", "") in ("Unknown", "known")
            and isinstance(node.args[0], ast.Constant)
        }
    return found


def test_every_reason_has_words(kempnerforge):
    names = raised(kempnerforge.vocabulary, JUDGED)
    assert len(names) > 30
    assert names - GAPS.keys() - NEEDED.keys() == SAID_OTHERWISE.keys()
    assert all(gpu.compute_capability for gpu in members())
