"""lint says which release it took, unless it was named."""

from tests.each import each

KEYS = "[training]\nlocal_batch_size = 2\n[compile]\nenable = true\n"
SAID = "1 file read as torchtitan 0.2.2, by the keys; "


@each(
    ("text", "arguments", "said"),
    [
        (KEYS, (), True),
        (KEYS, ("--trainer", "torchtitan"), True),
        (KEYS, ("--trainer", "torchtitan==0.2.2"), False),
        (f"# fp8tune: trainer=torchtitan==0.2.2\n{KEYS}", (), False),
        ("[train]\nbatch_size = 2\n", (), False),
    ],
)
def test_the_release_that_the_keys_told(fp8tune, text, arguments, said):
    code, out, _ = fp8tune("lint", "-", *arguments, stdin=text.encode())
    assert (code, SAID in out) == (0, said)
