"""Generated YAML texts in many layouts; what they mean is for PyYAML to say."""

from hypothesis import strategies as st

KEYS = ["a", "b", "lr", "fp8_config", "x-y", '"q q"', "'s'", "ä"]
SCALARS = [
    *("1", "-0.5", "5e-5", "5.0e-5", "true", "no", "null", "~", "fp8", "012", "12:30"),
    *("two words", "'it''s'", '"a\\tb"', '"# no comment"', "2026-01-02", "a#b", "''"),
    *(
        "http://x/y",
        "'{{ x }}'",
        "${HOME}/x",
        '"[1]"',
        ".inf",
        "x: y".replace(": ", ":"),
    ),
]
COMMENTS = ["", "", "", "  # why", " #", "   # a: 1"]
BLOCKS = ["|", ">", "|-", ">+", "|  # header"]


@st.composite
def documents(draw):
    """A text whose top is a mapping."""
    writer = _Writer(draw)
    head = draw(st.sampled_from(["", "", "# head\n", "---\n", "\n\n", "--- # x\n"]))
    text = head + writer.block(0, 3)
    if draw(st.integers(0, 5)) == 0:
        text = text.rstrip("\n")
    if draw(st.integers(0, 5)) == 0:
        text = text.replace("\n", "\r\n")
    return text


class _Writer:
    def __init__(self, draw):
        self.draw = draw
        self.anchors = []
        self.named = 0

    def pick(self, choices):
        return self.draw(st.sampled_from(choices))

    def chance(self, one_in):
        return self.draw(st.integers(1, one_in)) == 1

    def keys(self):
        return self.draw(
            st.lists(st.sampled_from(KEYS), min_size=1, max_size=4, unique=True)
        )

    def block(self, indent, depth, *, first=False):
        """A block mapping; ``first`` says that its first line is begun already."""
        lines = []
        if self.anchors and self.chance(8):
            lines.append(f"<<: *{self.pick(self.anchors)}\n")
        lines += [self.pair(key, indent, depth) for key in self.keys()]
        blanks = " " * indent
        return "".join(
            f"{self.between(blanks)}{blanks}{line}" if number or not first else line
            for number, line in enumerate(lines)
        )

    def between(self, blanks):
        return self.pick(["", "", "", "", "\n", f"{blanks}# above\n", "# left\n"])

    def pair(self, key, indent, depth):
        comment = self.pick(COMMENTS)
        kind = self.draw(st.integers(0, 11 if depth else 5))
        if kind <= 3:
            return f"{key}: {self.scalar()}{comment}\n"
        if kind == 4:
            return f"{key}:{comment}\n" if self.chance(2) else self.text(key, indent)
        if kind == 5:
            return f"{key}: {self.flow(2)}{comment}\n"
        step = self.pick([2, 2, 4])
        inner = " " * (indent + step)
        if kind <= 8:
            if not self.chance(5):
                body = self.block(indent + step, depth - 1)
                return f"{key}:{comment}\n{body}"
            self.named += 1
            name = f"n{self.named}"
            body = self.block(indent + step, depth - 1)
            self.anchors.append(name)
            return f"{key}: &{name}{comment}\n{body}"
        if kind == 9 and self.anchors:
            return f"{key}: *{self.pick(self.anchors)}{comment}\n"
        inner = " " * (indent + self.pick([0, step]))
        items = self.draw(st.integers(1, 3))
        return f"{key}:{comment}\n" + "".join(
            f"{inner}- {self.item(len(inner) + 2, depth)}" for _ in range(items)
        )

    def item(self, indent, depth):
        if depth and self.chance(3):
            return self.block(indent, depth - 1, first=True)
        return f"{self.scalar()}{self.pick(COMMENTS)}\n"

    def scalar(self):
        if self.anchors and self.chance(15):
            return f"*{self.pick(self.anchors)}"
        return self.pick(SCALARS)

    def text(self, key, indent):
        inner = " " * (indent + 2)
        return f"{key}: {self.pick(BLOCKS)}\n{inner}one # no comment\n{inner}two: 2\n"

    def flow(self, depth):
        kind = self.draw(st.integers(0, 4 if depth else 1))
        if kind <= 1:
            return self.pick([s for s in SCALARS if not set(s) & set(",[]{}:")])
        gap = self.pick(["", " ", "\n      ", " # c\n      "])
        count = self.draw(st.integers(0, 3))
        if kind == 2:
            return (
                "[" + f",{gap}".join(self.flow(depth - 1) for _ in range(count)) + "]"
            )
        pairs = (f"{key}: {self.flow(depth - 1)}" for key in self.keys())
        return "{" + f",{gap}".join(pairs) + "}"
