"""Random text, random documents, and configs with random damage."""

from hypothesis import given
from hypothesis import strategies as st

from tests.formats.toml import writer
from tests.lint.bad_input.cases import CONFIG, SECTIONS, VALUES, VLM_CONFIG
from tests.lint.bad_input.running import EXAMPLES, FORMATS, in_order, lint


@EXAMPLES
@given(st.binary(max_size=300), st.sampled_from(FORMATS))
def test_random_bytes(data, output_format):
    in_order(lint("--output-format", output_format, "-", stdin=data), output_format)


@EXAMPLES
@given(writer.documents(), st.sampled_from(FORMATS))
def test_random_documents(document, output_format):
    options = ("--output-format", output_format, "--trainer", "kempnerforge")
    in_order(lint(*options, "-", stdin=document[0].encode()), output_format)


KEYS = [(section, key) for section, keys in SECTIONS.items() for key in keys]


@EXAMPLES
@given(
    st.dictionaries(
        st.one_of(
            st.sampled_from(KEYS),
            st.tuples(st.sampled_from(sorted(SECTIONS)), writer.keys),
        ),
        writer.values,
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(["", *SECTIONS]),
    st.randoms(use_true_random=False),
    st.sampled_from(FORMATS),
)
def test_random_values_at_random_keys(chosen, first, dice, output_format):
    table = {first: {}} if first else {}
    for (section, key), value in chosen.items():
        table.setdefault(section, {})[key] = value
    data = writer.Writer(dice).document(table).encode()
    ended = lint(
        *("--output-format", output_format, "--trainer", "kempnerforge"),
        *("--gpu", "h100", "--world-size", "16", "-"),
        stdin=data,
    )
    in_order(ended, output_format)


def mutated(text, dice):
    """A config with some bytes gone, doubled, added or swapped, or values replaced."""
    data = bytearray(text.encode())
    for _ in range(dice.randrange(1, 6)):
        start = dice.randrange(len(data))
        end = min(len(data), start + dice.choice([1, 1, 2, 5, 40]))
        act = dice.randrange(6)
        if act == 0:
            del data[start:end]
        elif act == 1:
            data[start:start] = data[start:end]
        elif act == 2:
            data[start:start] = dice.randbytes(dice.randrange(1, 4))
        elif act == 3:
            other = dice.randrange(len(data))
            data[start], data[other] = data[other], data[start]
        elif act == 4:
            data[start:start] = dice.choice(SIGNS)
        else:
            value = dice.choice(VALUES).encode()
            lines = bytes(data).split(b"\n")
            line = dice.randrange(len(lines))
            key, equals, _ = lines[line].partition(b"=")
            lines[line] = key + (equals or b"=") + value
            data = bytearray(b"\n".join(lines))
        data = data or bytearray(b"\n")
    return bytes(data)


SIGNS = [
    *(b"[", b"]", b"[[", b"{", b"}", b"=", b".", b",", b"#", b"\n", b"\r\n", b"\r"),
    *(b'"', b"'", b'"""', b"'''", b"\\", b"\\\n", b"\0", b"\x1b[31m", b"\xc2\x9b"),
    *(b"\xef\xbb\xbf", b"\xe2\x80\xae", b"-", b"0x", b"nan", b"1e9", b"[train]\n"),
]


@EXAMPLES
@given(
    st.sampled_from([CONFIG, VLM_CONFIG]),
    st.randoms(use_true_random=False),
    st.sampled_from(FORMATS),
)
def test_mutated_configs(text, dice, output_format):
    data = mutated(text, dice)
    in_order(lint("--output-format", output_format, "-", stdin=data), output_format)
