"""Made traces of a GPU: kernels, passes, and where time went."""

from fp8tune.verify.evidence import Calls, Gemms, Left
from fp8tune.verify.timeline import Rows, busy
from fp8tune.verify.trace import read
from tests.each import each
from tests.support.traces import Kernel, Op, mm, node, step, write

NVJET8 = "nvjet_qqtst_128x256_128x6_2x1_2cta_v_bz_TNT"
NVJET16 = "nvjet_tst_256x128_64x4_1x2_h_bz_coopA_TNT"
E5M2 = "sm89_xmma_gemm_e4m3e5m2bf16_bf16f32_f32_tn_n_tilesize128x128x64"
WRAPPER = "void cutlass::device_kernel<at::cuda::detail::enable_3x_kernel_for_sm9x<"
CUT = WRAPPER + "cutlass::gemm::ker"
GROUPED = WRAPPER + "cutlass::gemm::GroupProblemShape<int>, cutlass::{}_t>>(Params)"
DEEP = "void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 4096u>(float*)"
LINEAR = "matmul_with_hp_or_float8_args"
SHAPE = (8192, 4096, 1024)


def scaled(kernel, **options):
    """torchao's eager linear: an FP8 GEMM inside an aten::mm."""
    inner = mm(*SHAPE, kernel, "aten::_scaled_mm", **options)
    dims = [[8192, 4096], [4096, 1024]]
    return Op(LINEAR, [Op("aten::mm", [Op("PythonSubclass", [inner])], dims)])


def linear(kernel):
    """A forward pass and a backward pass in which a linear has the same kernels."""
    gradients = [mm(*SHAPE, kernel, "aten::_scaled_mm") for _ in range(2)]
    return [scaled(kernel), node(f"{LINEAR}Backward", *gradients)]


def graph(*kernels):
    """A replayed CUDA graph: one launch, no operators inside."""
    first, *rest = kernels
    return [Kernel(first, launch="cudaGraphLaunch")] + [Kernel(name) for name in rest]


HEAD = [mm(8192, 4096, 512, NVJET16), node("MmBackward0", mm(512, 8192, 4096, NVJET16))]
TRACES = {
    # FP8, 16 bit, unclear, forward, backward, compiled, library
    "eager": ([*linear(NVJET8), *HEAD], (3, 2, 0, True, True, False, "cuBLASLt")),
    "wrapper, operator known": (linear(CUT), (3, 0, 0, True, True, False, "CUTLASS")),
    "wrapper, nothing known": (
        [Kernel(CUT), *HEAD],
        (0, 2, 1, None, None, False, ""),
    ),
    "grouped in bf16, name cut": (
        [mm(64, 32, 16, CUT, "aten::_grouped_mm"), *HEAD],
        (0, 3, 0, False, False, False, ""),
    ),
    "grouped in FP8": (
        [mm(64, 32, 16, GROUPED.format("float_e4m3"), "aten::_scaled_grouped_mm")],
        (1, 0, 0, True, False, False, "CUTLASS"),
    ),
    "Triton template": (
        [
            Op(
                "triton_tem_fused__scaled_mm_0",
                [Kernel("triton_tem_fused__scaled_mm_0", launch="cuLaunchKernelEx")],
            ),
            node("CompiledFunctionBackward", Kernel("triton_poi_fused_add_1")),
        ],
        (1, 0, 0, True, False, True, "Triton"),
    ),
    "CUDA graphs": (
        [
            Op("Torch-Compiled Region: 0/0", graph(NVJET8, NVJET16)),
            node("CompiledFunctionBackward", *graph(NVJET8, NVJET16)),
        ],
        (2, 2, 0, True, True, True, "cuBLASLt"),
    ),
    "a function's own kernels, recomputed": (
        [
            Op("BlockLinear", [Kernel(DEEP)]),
            node("BlockLinearBackward", Op("BlockLinear", [Kernel(DEEP)]), *HEAD[:1]),
        ],
        (2, 1, 0, True, False, False, "DeepGEMM"),
    ),
    "kernels with 16-bit names, launched by the FP8 operator": (
        [*linear(NVJET16), *HEAD],
        (3, 2, 0, True, True, False, "cuBLASLt"),
    ),
    "a kernel that no pattern knows": (
        linear("void new_library::gemm(int)"),
        (3, 0, 0, True, True, False, "unknown"),
    ),
    "casts only": (
        [
            Op("aten::_to_copy", [Kernel("void at::native::float8_copy_kernel_cuda")]),
            *HEAD,
        ],
        (0, 2, 0, False, False, False, ""),
    ),
    "kernels tried by torch.compile": (
        [Op("CachingAutotuner (dynamo_timed)", [Kernel(NVJET8)]), *HEAD],
        (0, 2, 0, False, False, False, ""),
    ),
}


def summary(trace):
    gemms = (trace.fp8.calls, trace.other.calls, trace.unclear.calls)
    passes = (trace.forward, trace.backward, trace.compiled)
    return (*gemms, *passes, ", ".join(trace.engines))


@each(("label", "case"), TRACES.items())
def test_what_ran(label, case, tmp_path):
    items, expected = case
    write(tmp_path / "trace.json", step(5, *items))
    trace = read(tmp_path / "trace.json")
    assert summary(trace) == expected
    assert (trace.device, trace.gpu) == ("cuda", "NVIDIA H100 80GB HBM3")
    assert (trace.rank, trace.world_size, trace.steps) == (3, 8, 1)


GPU_ONLY = ("kernel", "cuda_runtime")


@each(
    ("label", "items", "expected"),
    [
        # without operators the pass is unknown, unless E5M2 shows a gradient
        ("E4M3", linear(NVJET8), (3, 0, 0, None, None, None, "cuBLASLt")),
        ("E5M2", linear(E5M2), (3, 0, 0, False, True, None, "cuBLASLt")),
        ("16 bit", HEAD, (0, 2, 0, False, False, None, "")),
        ("nothing", [], (0, 0, 0, None, None, None, "")),
    ],
)
def test_traces_without_cpu_activity(label, items, expected, tmp_path):
    write(tmp_path / "trace.json", *items, only=GPU_ONLY)
    assert summary(read(tmp_path / "trace.json")) == expected


def test_gemms_by_shape_and_kernel(tmp_path):
    muon = Op("Optimizer.step#Muon.step", [mm(64, 64, 64, NVJET16)])
    attention = Op("aten::bmm", [Kernel(NVJET16)], [[32, 128, 64], [32, 64, 128]])
    write(tmp_path / "trace.json", *linear(NVJET8), *HEAD, muon, attention)
    trace = read(tmp_path / "trace.json")
    flops = 2.0 * 8192 * 4096 * 1024
    assert trace.fp8 == Gemms(3, 300.0, 3 * flops, 3)
    assert trace.other == Gemms(2, 200.0, flops, 2)
    assert trace.optimizer == Gemms(1, 100.0, 2.0 * 64**3, 1)
    assert trace.batched == Gemms(1, 100.0, 2.0 * 32 * 128 * 128 * 64, 1)
    assert trace.ran == [
        Left("aten::_scaled_mm", SHAPE, 2, 200.0, "", "backward", NVJET8),
        Left("aten::_scaled_mm", SHAPE, 1, 100.0, "", "forward", NVJET8),
    ]
    assert set(trace.left) == {
        Left("aten::mm", (8192, 4096, 512), 1, 100.0, "", "forward", NVJET16),
        Left("aten::mm", (512, 8192, 4096), 1, 100.0, "", "backward", NVJET16),
        Left("aten::mm", (64, 64, 64), 1, 100.0, "", "optimizer", NVJET16),
        Left("aten::bmm", (128, 64, 128), 1, 100.0, "", "forward", NVJET16),
    }


def test_where_time_went(tmp_path):
    nccl = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    wait = Op("cudaStreamSynchronize", category="cuda_runtime", us=30.0)
    load = Op(
        "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
        category="user_annotation",
        us=500.0,
    )
    items = [
        Op("aten::mm", [Kernel(NVJET16, 40.0)], us=80.0),
        Op("aten::item", [Op("aten::_local_scalar_dense", [wait])]),
        Op("aten::add", [Kernel("void at::native::add(int)", 10.0)], us=80.0),
    ]
    copy = Kernel("Memcpy DtoH (Device -> Pageable)", 5.0, category="gpu_memcpy")
    allocate = Op("cudaMalloc", category="cuda_runtime")
    gather = Op("nccl:all_gather", [allocate, copy, Kernel(nccl, 200.0)], us=600.0)
    write(tmp_path / "trace.json", step(7, load, *items), step(8, gather), wait)
    trace = read(tmp_path / "trace.json")
    assert (trace.steps, trace.gpu_us, trace.busy_us, trace.kernels) == (
        2,
        255.0,
        255.0,
        4,
    )
    assert trace.kinds == {
        "gemm": 40.0,
        "other": 10.0,
        "collective": 200.0,
        "copy": 5.0,
    }
    assert (trace.nccl_us, trace.nccl_alone_us) == (200.0, 200.0)
    assert trace.data == Calls(1, 500.0)
    assert trace.waits == {
        "cudaStreamSynchronize in aten::_local_scalar_dense": Calls(1, 30.0),
        "cudaMalloc": Calls(1, 2.0),
    }


def test_overlapping_kernels_are_busy_once():
    rows = Rows()
    for start, us, meaning in ((50, 10, 0), (0, 10, 0), (5, 10, 1), (20, 0, 0)):
        rows.add(start, us, meaning)
    windows = [(0.0, 8.0), (8.0, 12.0), (30.0, 40.0), (45.0, 100.0)]
    assert [busy(rows, each) for each in windows] == [8.0, 4.0, 0.0, 10.0]
    assert busy(rows, (8.0, 12.0), without={1}) == 2.0
    assert busy(Rows(), (0.0, 8.0)) == 0.0


def test_traces_with_wrong_or_missing_correlations(tmp_path):
    """Without a correlation a kernel belongs to no operator, and counts by its name."""
    write(tmp_path / "trace.json", *linear(NVJET8), *HEAD)
    text = (tmp_path / "trace.json").read_text()
    (tmp_path / "trace.json").write_text(text.replace('"correlation"', '"other"'))
    found = read(tmp_path / "trace.json")
    assert summary(found) == (3, 2, 0, None, None, False, "cuBLASLt")
    assert found.fp8.with_shapes == 0
