"""How to make a trainer write a profile of a step."""

from __future__ import annotations

from fp8tune.verify import patterns

GENERAL = """with torch.profiler around one step of your loop:
  with torch.profiler.profile() as profile: train_step()
  profile.export_chrome_trace("trace.json")"""


def how_to_profile(trainer: str, missing: str) -> str:
    """Return what is missing, with the lines of the config that would produce it."""
    if "a profile" not in missing:
        return missing
    known = patterns.known().get(trainer)
    return f"{missing}: {known.profile if known and known.profile else GENERAL}"
