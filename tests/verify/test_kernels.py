import time

from fp8tune.verify.kernels import find, kind, patterns
from tests.each import each

ALL = [(source, each) for source, group in patterns().items() for each in group]


@each(("source", "pattern"), ALL)
def test_the_examples_of_a_pattern_match_it_first(source, pattern):
    assert {find(source, name) for name in pattern.examples} == {pattern}
    assert pattern not in {find(source, name) for name in pattern.counterexamples}
    assert pattern.examples
    assert pattern.counterexamples
    assert pattern.evidence


SGLANG = "https://github.com/sgl-project/sglang/pull/22353"
TRITON = "https://github.com/triton-lang/triton/pull/9044"
TE = "https://github.com/NVIDIA/TransformerEngine/issues/1391"
PYTORCH = "https://github.com/pytorch/pytorch/issues/181718"
CUTLASS = "https://github.com/NVIDIA/cutlass/issues/2923"
PROFILER = "https://github.com/ericauld/cutlass/blob/bc5b40e/output_build_profiler.md"
PUBLISHED = (
    # a kernel's name, what its source says the operands are, and the source
    ("nvjet_tst_128x24_64x11_2x1_v_bz_TNT", "bf16, aten::mm", SGLANG),
    (
        "nvjet_sm100_qqhsh_128x256_128x6_2x1_2cta_v_bz_Avec32UE8M0_Bvec32UE8M0_TNT",
        "FP8, mxfp8",
        TRITON,
    ),
    (
        "sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize128x128x128_"
        "warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
        "FP8, A and B; C and D are bf16",
        TE,
    ),
    (
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_"
        "warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
        "bf16, before FP8",
        TE,
    ),
    (
        "cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1>",
        "bf16",
        PYTORCH,
    ),
    (
        "cutlass3x_sm100_tensorop_gemm_e4m3_e4m3_f32_bf16_bf16_64x120x128_1x1x1_0_tnn_"
        "align8_cpasync_1sm_epi_nosmem",
        "FP8, e4m3",
        CUTLASS,
    ),
    (
        "cutlass3x_sm90_tensorop_s64x256x32gemm_e4m3_e5m2_f32_bf16_bf16_128x256x128_"
        "1x1x1_0_tnn_align16_warpspecialized_fp8_fastaccum_epi_nosmem",
        "FP8, e4m3 and e5m2",
        PROFILER,
    ),
)


@each(("name", "operands", "source"), PUBLISHED)
def test_published_kernels_have_the_precision_that_their_source_says(
    name, operands, source
):
    fp8 = operands.startswith("FP8")
    assert kind("kernel", name) == ("fp8-gemm" if fp8 else "gemm"), source


@each(
    ("name", "expected"),
    [
        # E5M2's letter is in no public trace: one q is enough, on either side
        ("nvjet_sm90_qqtst_128x128_128x6_1x2_h_bz_ovscale_TNT", "fp8-gemm"),
        ("nvjet_sm90_xqtst_128x128_128x6_1x2_h_bz_TNT", "fp8-gemm"),
        ("nvjet_sm90_qxtst_128x128_128x6_1x2_h_bz_TNT", "fp8-gemm"),
        ("nvjet_sm90_xxtst_128x128_128x6_1x2_h_bz_TNT", "unclear-gemm"),
        ("nvjet_sm90_tst_256x160_64x4_1x2_h_bz_coopA_TNT", "gemm"),
    ],
)
def test_nvjet_tells_fp8_by_one_letter(name, expected):
    assert kind("kernel", name) == expected


HOSTILE = {
    "cutlass": "cutlass::device_kernel<" * 2000,
    "te": "transformer_engine" * 3000,
    "digits": "1" * 60_000,
    "words": "a_" * 30_000 + "!",
    "lines": "\n\0\x1b[31m" * 9000,
}


@each(("label", "name"), HOSTILE.items())
def test_hostile_names_take_no_time(label, name):
    begin = time.perf_counter()
    for source in patterns():
        find(source, name)
    assert time.perf_counter() - begin < 0.5
