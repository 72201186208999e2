"""Decide whether a sentence plainly describes this run and nothing else.

A sentence that compares, advises, supposes, quotes a command or names another file is
hedged. Below the title, every word must also be a known word for describing runs: an
unknown word may make the sentence about something else.
"""

from __future__ import annotations

import re
from collections.abc import Container
from functools import cache

_HEDGES = (
    "vs versus against unlike like than twin instead rather compare compared "
    "comparison relative equivalent alternative alternatives alternatively if when "
    "whether unless once where e.g example suppose assume assumes assumed assuming "
    "use try tried switch set reduce increase lower raise drop scale scaled double "
    "halve override overridden change consider recommend recommended should would "
    "could may might can cannot was were previous previously before after original "
    "originally formerly old new future planned intended todo fixme need needs "
    "needed require requires required typical typically default defaults paper "
    "published other others another sibling base baseline fallback also either or "
    "not without oom ooms oomed fail fails failed fit fits works tested faster "
    "slower better worse less fewer larger smaller bigger higher variant variants "
    "gives"
)
_DESCRIBING = (
    "a an and are by config for here is keep keeps of per runs same the this to "
    "trains x "
    "accum accumulation batch effective global grad gradient micro micro-batch "
    "optimizer-step seq seqs sequence sequences sample samples size step steps "
    "tok token tokens toks training budget throughput chinchilla "
    "cp data dp dp-ranks ep fsdp gpu gpus hsdp nodes parallelism pipeline pp pure "
    "rank ranks stage tensor tp across cross-node inter-node intra-node ib nvlink "
    "active all dense experts gqa heads kv_heads layers model moe params parameters "
    "top-1 top-2 top-4 top-8 total trainable "
    "ac activation activations checkpoint checkpointing full none off recompute "
    "selective trade bf16 fp16 fp32 fp8 gb gib memory peak precision every log save"
)
_OF_TITLES = ("in", "no", "on", "over", "with")
_SIGNS = ("<", ">", "\u2264", "\u2265", "?", "--", "$", "same run", "same config")
_FILES = (".toml", ".py", ".sh", ".yaml")
_WORDS = re.compile(r"[a-z][a-z.]*")
_TERM = r"(?<![\w.])([A-Za-z_][\w-]*)([ \t]*=)?"
_PARTS = r"(?:vision[ _])?(?:adapter|backbone|decoder|encoder|tower|transformer)"
_SETTLED = (
    r"^[#\s]*Measured on [^:\n]*:|\boptimizer(?= step)"
    rf"|\({_PARTS} frozen\)|(?<=[0-9] )[KMBT]\b"
)
_LABEL = r"(?:^|[#\n(])[ \t]*([\w~][^:\n(]*):(?=\s|$)"


@cache
def _hedges() -> frozenset[str]:
    return frozenset(_HEDGES.split())


def hedged(words: str) -> bool:
    """Return whether a sentence does not plainly state what this run is."""
    lowered = words.lower()
    if any(sign in lowered.replace("->", "") for sign in _SIGNS):
        return True
    if any(ending in lowered for ending in _FILES):
        return True
    return not _hedges().isdisjoint(w.rstrip(".") for w in _WORDS.findall(lowered))


@cache
def _describing() -> frozenset[str]:
    return frozenset(_DESCRIBING.split())


def describes(words: str, names: Container[str], *, title: bool) -> bool:
    """Return whether a sentence has only words that describe a run.

    The claims themselves were removed from it. ``names`` may precede ``=``. A title may
    also have names, for instance of models: words with a capital or a digit.
    """
    words = re.sub(_SETTLED, " ", words)
    if not title and any(not re.search(_TERM, x) for x in re.findall(_LABEL, words)):
        return False  # `13B: dim = 5120` is of another model
    for term, equals in re.findall(_TERM, words):
        named = title and (
            term in _OF_TITLES or not (term.isalpha() and term.islower())
        )
        named = named or (equals != "" and term.lower() in names)
        if not named and term.lower() not in _describing():
            return False
    return True
