"""What logs, traces and a config together say of a run."""

from dataclasses import replace

from fp8tune.facts.linears import Gemm
from fp8tune.verify.evidence import Curve, Gemms, Left, Log, Mention, Trace
from fp8tune.verify.expected import NOTHING, Expected
from fp8tune.verify.verdict import judge, left_in_16_bit
from tests.each import each

UP = Gemm("up_proj", 4096, 1024, 4096, 8, True, 3)
HEAD = Gemm("head", 4096, 1024, 32000, 1, False, 3)
FP8 = Expected("train.toml", 3, True, True, 0.8, (UP, HEAD), 8)
BF16 = Expected("train.toml", 3, asked=False)


def trace(fp8=24, other=3, *, backward=True, **fields):
    """A trace whose GEMMs all take the same time and have no shapes."""
    gemms = {"fp8": Gemms(fp8, float(fp8)), "other": Gemms(other, float(other))}
    return Trace("trace.json", "cuda", steps=1, backward=backward, **gemms, **fields)


def log(*says, steps=10):
    """A KempnerForge log with lines on FP8 and some logged steps."""
    curve = Curve()
    for step in range(steps):
        curve.add(step=step, loss=3.0)
    count = {"proves": 8, "denies": 0}
    lines = [(one.removesuffix(" uncounted"), count.get(one)) for one in says]
    mentions = [Mention(one, one, 5, one, many) for one, many in lines]
    return Log("run.log", "kempnerforge", starts=[curve], mentions=mentions)


def printed_model():
    """A log that shows a converted linear, and not how many there are."""
    shown = Mention("proves", "printed-model", 5, "(k_proj): Float8Linear()", None)
    return replace(log(), mentions=[shown])


def said(logs=(), traces=(), expected=NOTHING):
    found = judge(logs, traces, expected)
    codes = [one.code for one in found.reasons if one.code not in ("asked", "claimed")]
    return found.word, found.asked, found.claimed, codes


@each(
    ("one", "expected", "word", "code"),
    [
        (trace(), FP8, "verified", "fp8-gemms"),
        (trace(fp8=0), FP8, "not-fp8", "no-fp8-gemms"),
        (trace(fp8=0, casts=9), FP8, "partly", "casts-only"),
        (trace(backward=False), FP8, "partly", "forward-only"),
        (trace(fp8=8, other=8, backward=None), FP8, "cannot-tell", "pass-unknown"),
        (trace(backward=None, trains=True), FP8, "verified", "fp8-gemms"),
        # of inference, or of a file that ends within the forward pass
        (trace(backward=None), FP8, "cannot-tell", "pass-unknown"),
        (
            trace(backward=None, trains=True, cut="end"),
            FP8,
            "cannot-tell",
            "pass-unknown",
        ),
        (trace(fp8=6, other=24), NOTHING, "cannot-tell", "share-unknown"),
        (trace(fp8=6, other=24), FP8, "partly", "share-too-small"),
        (trace(fp8=0, other=0), FP8, "cannot-tell", "no-gemms"),
        (trace(trains=False), FP8, "cannot-tell", "no-training"),
        (trace(compiled=False), FP8, "partly", "not-compiled"),
        (trace(0, unclear=Gemms(9, 9.0)), FP8, "cannot-tell", "precision-unknown"),
        (trace(unclear=Gemms(60, 60.0)), FP8, "cannot-tell", "precision-unknown"),
        (replace(trace(fp8=0), cut="end", steps=0), FP8, "cannot-tell", "trace-cut"),
    ],
)
def test_a_trace_decides(one, expected, word, code):
    assert said(traces=[one], expected=expected) == (
        word,
        expected.asked,
        None,
        [code],
    )


@each(
    ("logs", "expected", "word", "claimed", "code"),
    [
        ([log("claims")], FP8, "cannot-tell", True, "log-claims"),
        ([log("claims", "denies")], FP8, "not-fp8", True, "log-denies"),
        ([log("denies")], FP8, "not-fp8", False, "log-denies"),
        ([log("proves")], FP8, "verified", True, "linears-counted"),
        ([log("proves")], NOTHING, "cannot-tell", True, "linears-counted"),
        ([log("proves uncounted")], NOTHING, "cannot-tell", True, "linears-printed"),
        ([log("proves", steps=0)], FP8, "cannot-tell", True, "linears-counted"),
        ([log("proves")], replace(FP8, modules=9), "partly", True, "linears-missing"),
        ([log()], FP8, "cannot-tell", False, "log-silent"),
        ([log()], BF16, "not-fp8", False, "not-asked"),
        ([log("claims")], BF16, "cannot-tell", True, "log-claims"),
        ([log(steps=0)], NOTHING, "cannot-tell", False, "no-evidence"),
    ],
)
def test_a_log_alone_never_verifies_by_a_claim(logs, expected, word, claimed, code):
    found = said(logs, expected=expected)
    assert (found[0], found[2], found[3]) == (word, claimed, [code])


def test_where_log_and_trace_disagree_the_trace_decides():
    found = judge([log("claims")], [trace(fp8=0)], FP8)
    assert (found.word, [one.code for one in found.contradictions]) == (
        "not-fp8",
        ["log-claims-fp8"],
    )
    found = judge([log("denies")], [trace()], FP8)
    assert (found.word, [one.code for one in found.contradictions]) == (
        "verified",
        ["log-denies-fp8"],
    )
    in_bf16 = replace(log(), settings={"precision": "bf16"})
    for found in judge([], [trace()], BF16), judge([in_bf16], [trace()]):
        assert (found.word, [one.code for one in found.contradictions]) == (
            "cannot-tell",
            ["fp8-not-asked"],
        )
    assert judge([log("claims")], [trace()], FP8).contradictions == []


def test_the_last_start_of_a_log_counts():
    first, second = Curve(line=9), Curve(line=99)
    for curve in (first, second):
        curve.add(step=1, loss=3.0)
    lines = [Mention("denies", "off", 5, "off"), Mention("claims", "on", 95, "on")]
    again = Log("run.log", "kempnerforge", starts=[first, second], mentions=lines)
    assert said([again], expected=FP8)[0::3] == ("cannot-tell", ["log-claims"])
    lines.reverse()
    lines[0], lines[1] = replace(lines[0], line=5), replace(lines[1], line=95)
    assert said([again], expected=FP8)[0::3] == ("not-fp8", ["log-denies"])


def test_the_log_of_one_rank_in_16_bit_makes_it_partly():
    fp8 = replace(log("claims"), settings={"precision": "fp8"})
    bf16 = replace(log(), settings={"precision": "bf16"})
    assert said([fp8, bf16], [trace()])[::3] == ("partly", ["logs-differ", "fp8-gemms"])
    assert said([fp8, fp8], [trace()])[::3] == ("verified", ["fp8-gemms"])


def test_without_a_config_gemms_in_16_bit_are_said():
    text = "FP8, forward and backward"
    more = f"{text}; --config train.toml checks whether more should"
    assert judge([], [trace(other=0)]).reasons[-1].message.endswith(text)
    assert judge([], [trace(other=3)]).reasons[-1].message.endswith(more)


def test_a_trace_of_another_model_does_not_verify():
    def of(width):
        shapes = [(4096, width, width * n) for n in range(1, 6)]
        return trace(ran=[Left("mm", shape, 3, 9.0) for shape in shapes])

    assert said(traces=[of(1024)], expected=FP8)[0] == "verified"
    assert said(traces=[of(768)])[0] == "verified"
    told = said(traces=[of(768)], expected=FP8)
    assert told[0::3] == ("cannot-tell", ["other-shapes"])


def test_one_rank_in_16_bit_makes_it_partly():
    codes = ["traces-differ", "fp8-gemms", "no-fp8-gemms"]
    told = said(traces=[trace(), trace(fp8=0)], expected=FP8)
    assert told == ("partly", True, None, codes)


def test_shapes_name_the_linears_that_stayed_in_16_bit():
    lefts = [Left("mm", (1024, 4096, 4096), 3, 9.0), Left("mm", None, 1, 1.0)]
    lefts.append(Left("mm", (4096, 1024, 32000), 3, 9.0))
    assert left_in_16_bit(trace(left=lefts), FP8) == ["up_proj"]


def test_the_share_of_flops_is_compared_where_shapes_are_known():
    half = Gemms(24, 24.0, 50.0, 24)
    found = judge([], [replace(trace(), fp8=half, other=half)], FP8)
    assert found.word == "partly"
    assert "50% of the linears' FLOPs instead of 80%" in found.reasons[-1].message


def test_without_shapes_calls_are_compared_but_for_experts():
    assert FP8.call_share == 8 / 9
    assert replace(FP8, kept_passes=1).call_share == 16 / 27
    moe = replace(FP8, experts=True)
    assert said(traces=[trace()], expected=moe)[0::3] == (
        "cannot-tell",
        ["share-unknown"],
    )
