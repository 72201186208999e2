"""Which linears of a torchtitan run compute in FP8, and with what scaling.

Source: torchtitan 0.2.2, components/quantization/float8.py and the parallelize modules
of each model; 0.1.0 has the same under other names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fp8tune.job import Unknown, Words
from fp8tune.trainers.torchtitan.gemms import ALIGNMENT, is_small
from fp8tune.trainers.torchtitan.releases import LENIENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fp8tune.facts.linears import Gemm, Linear

LINEAR = ("quantize.linear.float8", "float8")
"""The converter of linears, since 0.2.0 and before."""

MX = ("quantize.linear.mx", "mx")
"""The converter of linears to MXFP8, since 0.2.0 and before."""

MX_BLOCK, TRITON_TILE = 32, 128
"""Values that share one scale in MXFP8, and the tile of Triton's cast to it.

torchao 0.11 to 0.18 asserts both, mx_formats/mx_tensor.py and kernels.py
(``triton_to_mxfp8_dim1``: "unsupported").
"""

EXPERTS = "quantize.grouped_mm.float8"
"""The converter of experts, since 0.2.0."""

OTHERS = (*MX, EXPERTS, "quantize.grouped_mm.mx")

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
    return any(name in MX for name in model_converters)


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


def mx_filters(
    quantize_linear_mx_filter_fqns: Any = None, mx_filter_fqns: Any = None
) -> tuple[str, ...]:
    """Texts in the names of linears that the converter to MXFP8 leaves in bf16."""
    return tuple(quantize_linear_mx_filter_fqns or mx_filter_fqns or ())


def mx_filter_key(trainer_version: str) -> str:
    """The key that keeps linears out of MXFP8."""
    return Words(f"{MX[trainer_version == LENIENT]}.filter_fqns")


def fp8_linears(
    float8_linears: bool,
    linears: tuple[Linear, ...],
    fp8_skips: list[str],
    auto_filter: bool,
    fp8_recipe: str,
    layers: int,
) -> tuple[Linear, ...]:
    """Kinds of linears that the converter to FP8 takes, of all blocks."""
    return tuple(
        one
        for one in _unfiltered(linears, fp8_skips, layers)
        if float8_linears
        if not (auto_filter and is_small(fp8_recipe, one.columns, one.rows))
    )


def mxfp8_linears(
    mx_linears: bool,
    linears: tuple[Linear, ...],
    mx_filters: tuple[str, ...],
    layers: int,
) -> tuple[Linear, ...]:
    """Kinds of linears that the converter to MXFP8 takes, of all blocks."""
    return tuple(_unfiltered(linears, mx_filters, layers)) if mx_linears else ()


def mx_multiple(
    quantize_linear_mx_mxfp8_dim1_cast_kernel_choice: Any = None,
    mx_use_fp8_dim1_cast_triton_kernel: Any = False,
) -> int:
    """What M, K and N of the linears in MXFP8 must divide by, on each rank."""
    kernel = quantize_linear_mx_mxfp8_dim1_cast_kernel_choice
    triton = kernel == "triton" or mx_use_fp8_dim1_cast_triton_kernel
    return TRITON_TILE if triton else MX_BLOCK


def mx_odd_linear(mxfp8_linears: tuple[Linear, ...], mx_multiple: int, tp: int) -> str:
    """The first linear in MXFP8 with a size that is no such multiple, in words."""
    from fp8tune.facts.linears import odd

    return Words(odd(mxfp8_linears, mx_multiple, tp)[1])


def mx_odd_names(mxfp8_linears: tuple[Linear, ...], mx_multiple: int, tp: int) -> str:
    """The names of all such linears, as filters know them."""
    from fp8tune.facts.linears import odd

    names = (odd([one], mx_multiple, tp)[0] for one in mxfp8_linears)
    return Words(", ".join(name.removeprefix("moe.") for name in names if name))


def mx_odd_tokens(
    mx_linears: bool, fp8_tokens: tuple[int, ...], mx_multiple: int
) -> int:
    """M of the linears in MXFP8 if it is no such multiple, else 0 [tokens]."""
    return fp8_tokens[0] if mx_linears and fp8_tokens[0] % mx_multiple else 0


def _unfiltered(
    linears: tuple[Linear, ...], skips: Sequence[str], layers: int
) -> Iterator[Linear]:
    """Yield the linears that no filter keeps in bf16 in every block.

    The converters also leave sizes that 16 does not divide.
    """
    numbered = [f"layers.{i}." for i in range(layers)]

    def kept(one: Linear) -> bool:
        blocks = [""] if one.name == "output" else numbered
        return all(any(skip in block + one.name for skip in skips) for block in blocks)

    for one in linears:
        if (one.rows | one.columns) % ALIGNMENT == 0 and not kept(one):
            yield one


def linears(
    sizes: dict[str, Any],
    plain_model: bool,
    trainer_version: str,
    vocab_size: int = 0,
) -> tuple[Linear, ...]:
    """Kinds of linears of the model; routers and shared experts are some.

    Experts are 3-D parameters, and so are shared experts in 0.1.0 (models/moe/moe.py).
    """
    found = _linears(sizes, vocab_size, trainer_version) if plain_model else ()
    return tuple(found)


def _linears(sizes: dict[str, Any], vocab: int, version: str) -> Iterator[Linear]:
    from fp8tune.facts.linears import Linear

    dim, experts = int(sizes["dim"]), int(sizes.get("experts", 0))
    if "mla" in sizes:
        yield from _latent_attention(dim, int(sizes["heads"]), sizes["mla"])
    else:
        queries, pairs = (
            int(sizes[name]) * int(sizes["head_dim"]) for name in ("heads", "kv_heads")
        )
        yield Linear("attention.wq", queries, dim, "rows")
        yield Linear("attention.wk", pairs, dim, "rows")
        yield Linear("attention.wv", pairs, dim, "rows")
        yield Linear("attention.wo", dim, queries, "columns")
    dense = int(sizes["ffn"]) if sizes.get("dense", 1) else 0
    shared = int(sizes.get("shared", 0)) * int(sizes.get("expert", 0))
    shared *= experts > 0 and version != LENIENT
    for home, ffn in (("feed_forward", dense), ("moe.shared_experts", shared)):
        if ffn:
            yield Linear(f"{home}.w1", ffn, dim, "rows")
            yield Linear(f"{home}.w2", dim, ffn, "columns")
            yield Linear(f"{home}.w3", ffn, dim, "rows")
    if experts:
        yield Linear("moe.router.gate", experts, dim)
    if vocab:
        yield Linear("output", vocab, dim, "rows")


def _latent_attention(dim: int, heads: int, mla: dict[str, int]) -> Iterator[Linear]:
    """The linears of latent attention (models/deepseek_v3/model/model.py)."""
    from fp8tune.facts.linears import Linear

    low, nope, rope = (
        mla["q_lora_rank"],
        mla["qk_nope_head_dim"],
        mla["qk_rope_head_dim"],
    )
    value, pairs = mla["v_head_dim"], mla["kv_lora_rank"]
    queries = heads * (nope + rope)
    if low:
        yield Linear("attention.wq_a", low, dim)
        yield Linear("attention.wq_b", queries, low, "rows")
    else:
        yield Linear("attention.wq", queries, dim, "rows")
    yield Linear("attention.wkv_a", pairs + rope, dim)
    yield Linear("attention.wkv_b", heads * (nope + value), pairs, "rows")
    yield Linear("attention.wo", dim, heads * value, "columns")


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
