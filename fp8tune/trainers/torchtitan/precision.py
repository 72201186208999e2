"""Which linears of a torchtitan run compute in FP8, and with what scaling.

Source: torchtitan 0.2.2, components/quantization/float8.py and the parallelize modules
of each model; 0.1.0 has the same under other names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fp8tune.job import Unknown, Words
from fp8tune.trainers.torchtitan.gemms import is_small
from fp8tune.trainers.torchtitan.releases import LENIENT

if TYPE_CHECKING:
    from fp8tune.facts.linears import Gemm

LINEAR = ("quantize.linear.float8", "float8")
"""The converter of linears, since 0.2.0 and before."""

EXPERTS = "quantize.grouped_mm.float8"
"""The converter of experts, since 0.2.0."""

OTHERS = (
    "quantize.linear.mx",
    EXPERTS,
    "quantize.grouped_mm.mx",
    "mx",
)

AUTO = "auto_filter_small_kn"
"""A filter that is no text: torchao skips linears that are too small to gain."""

BLOCK = (
    "attention.wq",
    "attention.wk",
    "attention.wv",
    "attention.wo",
    "feed_forward.w1",
    "feed_forward.w2",
    "feed_forward.w3",
)
"""Linears of a dense block with its own heads, by torchtitan's names."""


def float8_linears(model_converters: list[str]) -> bool:
    """Whether the converter of linears is listed; its table alone changes nothing."""
    return any(name in LINEAR for name in model_converters)


def float8_experts(model_converters: list[str]) -> bool:
    """Whether experts compute in FP8 (quantize.grouped_mm.float8)."""
    return EXPERTS in model_converters


def quantizations(model_converters: list[str]) -> int:
    """How many kinds of quantization the converters mix: float8 and mx."""
    return len({name.rpartition(".")[2] for name in model_converters})


def auto_filter(trainer_version: str, fp8_filters: tuple[str, ...]) -> bool:
    """Whether torchao chooses which small linears stay in bf16: not in 0.1.0."""
    return AUTO in fp8_filters and trainer_version != LENIENT


def compute_dtype(
    training_mixed_precision_param: str,
    tp: int,
    pp: int,
    training_dtype: str = "float32",
    sharded: bool | None = None,
) -> str:
    """Dtype of the linears' compute: that of FSDP or autocast.

    With TP or a pipeline but no FSDP mixed precision is off, and the weights' dtype
    computes (distributed/utils.py, maybe_enable_amp).
    """
    if tp * pp == 1 or sharded:
        return Words(training_mixed_precision_param)
    if sharded is None:
        raise Unknown("compute_dtype")
    return Words(training_dtype)


def mx_linears(model_converters: list[str]) -> bool:
    """Whether linears compute in MXFP8."""
    return any(name in ("quantize.linear.mx", "mx") for name in model_converters)


def mx_converters(model_converters: list[str]) -> bool:
    """Whether any converter is for MXFP8, which needs Blackwell or MI350."""
    return any(name.rpartition(".")[2] == "mx" for name in model_converters)


def mx_converters_from_0_2(mx_converters: bool, trainer_version: str) -> bool:
    """Whether a release from 0.2.0 on converts to MXFP8."""
    return mx_converters and trainer_version != LENIENT


def experts_converted_after_linears(model_converters: list[str]) -> bool:
    """Whether the converter of FP8 experts comes after that of FP8 linears."""
    names = [name for name in model_converters if name in (*LINEAR, EXPERTS)]
    return len(names) > 1 and names[-1] == EXPERTS


def recipe_named_in_0_1(
    float8_linears: bool, recipe_given: str, trainer_version: str
) -> bool:
    """Whether torchtitan 0.1.0 is asked for a recipe by its name."""
    return float8_linears and bool(recipe_given) and trainer_version == LENIENT


def emulates(float8_linears: bool, emulated: bool, recipe_given: str) -> bool:
    """Whether FP8 is emulated in fp32: a recipe turns that off."""
    return float8_linears and emulated and not recipe_given


def precision(
    float8_linears: bool,
    model_converters: list[str],
    compute_dtype: str,
    emulates: bool,
) -> str:
    """Precision of the linears; unknown with MXFP8, FP8 experts or emulation."""
    if emulates or any(name in OTHERS for name in model_converters):
        raise Unknown("precision")
    if float8_linears:
        return Words("fp8")
    words = {"bfloat16": "bf16", "float32": "fp32", "float16": "fp16"}
    return Words(words[compute_dtype])


def weight_bytes(training_dtype: str = "float32") -> int:
    """Bytes per parameter of the weights (train.py, set_default_dtype)."""
    return 4 if training_dtype == "float32" else 2


def compute_bytes(compute_dtype: str) -> int:
    """Bytes of a value in compute and all-gather."""
    return 4 if compute_dtype == "float32" else 2


def recipe_given(
    quantize_linear_float8_recipe_name: str | None = None,
    float8_recipe_name: str | None = None,
) -> str:
    """The recipe that the file names, ``""`` if none."""
    return Words(quantize_linear_float8_recipe_name or float8_recipe_name or "")


def fp8_recipe(float8_linears: bool, recipe_given: str) -> str:
    """The torchao recipe: tensorwise if none is named."""
    return Words((recipe_given or "tensorwise") if float8_linears else "")


def all_gather_asked(
    quantize_linear_float8_enable_fsdp_float8_all_gather: bool = False,
    float8_enable_fsdp_float8_all_gather: bool = False,
) -> bool:
    """Whether the file asks for FSDP's all-gather in FP8."""
    return bool(
        quantize_linear_float8_enable_fsdp_float8_all_gather
        or float8_enable_fsdp_float8_all_gather
    )


def precompute_asked(
    quantize_linear_float8_precompute_float8_dynamic_scale_for_fsdp: bool = False,
    float8_precompute_float8_dynamic_scale_for_fsdp: bool = False,
) -> bool:
    """Whether the file asks for one all-reduce of all scales."""
    return bool(
        quantize_linear_float8_precompute_float8_dynamic_scale_for_fsdp
        or float8_precompute_float8_dynamic_scale_for_fsdp
    )


def emulated(
    quantize_linear_float8_emulate: bool = False, float8_emulate: bool = False
) -> bool:
    """Whether the file asks for FP8 that is computed in fp32."""
    return bool(quantize_linear_float8_emulate or float8_emulate)


def fp8_all_gather(
    float8_linears: bool, all_gather_asked: bool, recipe_given: str, dp_shard: int
) -> bool:
    """Whether FSDP2 gathers weights in FP8: not without shards of its own."""
    return float8_linears and all_gather_asked and not recipe_given and dp_shard > 1


def fp8_scales_precomputed(fp8_all_gather: bool, precompute_asked: bool) -> bool:
    """Whether no weight has an all-reduce of its own for its scale.

    One gets the scales of all weights, or weights are scaled where they are gathered.
    """
    return precompute_asked or not fp8_all_gather


def fp8_filters(
    quantize_linear_float8_filter_fqns: Any = None, float8_filter_fqns: Any = None
) -> tuple[str, ...]:
    """Texts in the names of linears that stay in bf16.

    A string instead of a list is its letters, each of them a filter.
    """
    given = quantize_linear_float8_filter_fqns or float8_filter_fqns or ()
    return tuple(given)


def filters_listed(
    quantize_linear_float8_filter_fqns: Any = None, float8_filter_fqns: Any = None
) -> bool:
    """Whether the filters are a list, as they should be."""
    given = quantize_linear_float8_filter_fqns or float8_filter_fqns or ()
    return not isinstance(given, str)


def fp8_filter_key(trainer_version: str) -> str:
    """The key that keeps linears in bf16."""
    return Words(f"{LINEAR[trainer_version == LENIENT]}.filter_fqns")


def fp8_skips(fp8_filters: tuple[str, ...], auto_filter: bool) -> list[str]:
    """The same without torchao's own filter, which is no text."""
    return [name for name in fp8_filters if not auto_filter or name != AUTO]


def fp8_tp_refused() -> bool:
    """Whether it refuses FP8 with tensor parallelism: never."""
    return False


def fp8_converts_head(float8_linears: bool, fp8_skips: list[str]) -> bool:
    """Whether the output head becomes a Float8Linear: if no filter is in its name."""
    return float8_linears and not any(name in "output" for name in fp8_skips)


def linear_names(sizes: dict[str, Any]) -> tuple[str, ...]:
    """Names of all linears of a dense model; unknown for others."""
    if "mla" in sizes or sizes.get("experts"):
        raise Unknown("linear_names")
    count = int(sizes["layers"])
    blocks = (f"layers.{i}.{name}" for i in range(count) for name in BLOCK)
    return (*blocks, "output")


def idle_filters(linear_names: tuple[str, ...], fp8_skips: list[str]) -> str:
    """Filters that are in the name of no linear."""
    idle = (f for f in fp8_skips if not any(f in name for name in linear_names))
    return Words(", ".join(idle))


def converted_linears(gemms: tuple[Gemm, ...], float8_linears: bool) -> int:
    """Linears that run in FP8: no filter keeps them in bf16."""
    return sum(g.copies for g in gemms if g.fp8) if float8_linears else 0


def small_linears(gemms: tuple[Gemm, ...], tp: int, fp8_recipe: str) -> str:
    """FP8 linears that torchao's filter of small ones would keep in bf16.

    Unknown with tensor parallelism, where a rank has parts of them.
    """
    if tp > 1:
        raise Unknown("small_linears")
    small = (g.name for g in gemms if g.fp8 and is_small(fp8_recipe, g.k, g.n))
    return Words(", ".join(small))
