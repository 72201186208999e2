"""Random text, random documents, and random values at random keys.

``benchmarks/test_config_fuzz.py`` has whole configs with random damage.
"""

from hypothesis import given
from hypothesis import strategies as st

from tests.formats.toml import writer
from tests.lint.bad_input.cases import SECTIONS
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
