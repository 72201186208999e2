"""What users' logs and traces show: each kind as users met it, and further inputs."""
# ruff: noqa: E501 - lines of logs stay whole

import json
from pathlib import Path

import pytest

from fp8tune.verify import lines, patterns
from fp8tune.verify.cause import texts
from fp8tune.verify.evidence import Gemms, Trace
from fp8tune.verify.log import read as log_of
from fp8tune.verify.run import verify
from fp8tune.verify.shapes import Shapes, shapes_of
from fp8tune.verify.verdict import judge
from tests.each import each

TITAN = "[titan] 2025-04-04 14:00:29,500 - root - INFO - "
SWAPPED = TITAN + "Swapped to Float8Linear layers"
TE = "/TransformerEngine/transformer_engine/common/"
GEMM = f"RuntimeError: {TE}gemm/cublaslt_gemm.cu:750 in function cublas_gemm: "
OOM = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.20 GiB is free."
CUBLAS = "RuntimeError: CUDA error: CUBLAS_STATUS_INVALID_VALUE when calling cublasLtMatmul with transpose_mat1 t transpose_mat2 n m {m} n {n} k {k} mat1_ld {k} mat2_ld {k} result_ld {m} abType {ab} cType 14 computeType 68 scaleType 0"
TE_SIZES = "FP8 execution requires the product of all dimensions except the last to be divisible by 8 and the last dimension to be divisible by 16, but got tensor with dims="
LEVELS = "torch.OutOfMemoryError: "


def step(number, loss):
    """A line of torchtitan."""
    return f"{TITAN}step: {number:2d}  loss: {loss:>8}  memory: 53.83GiB(56.66%)  tps: 7,312  tflops: 423.50  mfu: 42.82%"


def answer_on(folder, text):
    """Verify a log."""
    path = folder / "run.log"
    path.write_text(text + "\n")
    return verify((str(path),))


def told(answer):
    """The codes of the causes, each with what it follows from."""
    return [(each.code, each.after) for each in answer.causes]


ROOTS = [
    # FP8 all-gather of uneven rows
    ("RuntimeError: setStorage: sizes [4096, 1024], strides [1024, 1], storage offset 0, and itemsize 1 requiring a storage size of 4194304 are out of bounds for storage of size 4190208", "fp8-all-gather-uneven", "divide 4096"),
    ("RuntimeError: max(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.", "fp8-all-gather-uneven", "has none"),
    # Transformer Engine's words for CUDA, cuBLAS and NCCL
    (f"{GEMM}cuBLAS Error: the function failed to launch on the GPU", "cublas-failed", "failed to launch"),
    (f"RuntimeError: {TE}util/logging.h:39 in function check_cublas_: CUBLAS Error: the requested functionality is not supported", "cublas-failed", "not supported"),
    (f"{GEMM}cuBLAS Error: the resource allocation failed", "out-of-memory", "out of memory"),
    (f"RuntimeError: {TE}util/cuda_driver.cpp:60 in function get: CUDA Error: an illegal memory access was encountered", "illegal-memory-access", ""),
    (f"RuntimeError: {TE}comm_gemm/comm_gemm.cpp:120 in function make: NCCL Error: internal error - please report this issue to the NCCL developers", "nccl-failure", "internal error"),
    ("AssertionError: Device compute capability 9.x required for FP8 execution.", "gpu-without-fp8", ""),
    ("AssertionError: CublasLt version 12.1.3.x or higher required for FP8 execution on Ada.", "cuda-without-fp8-on-ada", "CublasLt version 12.1.3.x"),
    # sizes: the number, its axis, one that works
    ("RuntimeError: CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasLtMatmulAlgoGetHeuristic( ltHandle, computeDesc.descriptor())`", "cublas-failed", "NOT_SUPPORTED"),
    (CUBLAS.format(m=50257, n=4096, k=4096, ab=28), "cublas-fp8-size", "N = 50257"),
    (CUBLAS.format(m=4096, n=4096, k=1000, ab=29), "cublas-fp8-size", "K = 1000"),
    ("RuntimeError: Expected both dimensions of mat2 to be divisble by 16 but got torch.Size([4096, 8])", "fp8-size-not-16", "N = 8 "),
    ("RuntimeError: Expected trailing dimension of mat1 to be divisible by 16 but got mat1 shape: (8192x50257).", "fp8-size-not-16", "K = 50257, which is not a multiple of 16; 50272 is"),
    (f"AssertionError: {TE_SIZES}[3, 1001, 4096]", "fp8-tokens-not-16", "3003 tokens (M)"),
    (f"ValueError: {TE_SIZES}[2, 1001, 4096] (product of leading dims = 2002, last dim = 4096)", "fp8-tokens-not-16", "2002 tokens"),
    ("AssertionError: Tensor dimensions are not compatible for FP8 execution: (4092 % 8 != 0, 4096 % 16 != 0)", "fp8-tokens-not-16", "4092 tokens"),
    ("RuntimeError: MXFP8 requires tensor dims that are divisble by 32 (got shape=[2, 1000, 4096])", "mxfp8-tokens-not-32", "2000 tokens"),
]  # fmt: skip


@each(("line", "code", "words"), ROOTS)
def test_a_message_has_its_cause_with_the_numbers(line, code, words, tmp_path):
    answer = answer_on(tmp_path, f"[rank3]: {line}")
    assert told(answer) == [(code, "")]
    assert words in answer.causes[0].message
    assert answer.exit_code == 1


WRAPPED = [
    ("torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\n"
     f"RuntimeError: {OOM}\nSet TORCHDYNAMO_VERBOSE=1 for the internal stack trace", "out-of-memory", "compile-failed"),
    ("[rank5]: torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\n"
     "[rank5]: ValueError: For row-wise scaling, the leading dims of A_scale must match the leading dims of A (A shape: torch.Size([5, 8192, 4096]), A_scale shape: torch.Size([40960, 1]))",
     "rowwise-with-async-tensor-parallel", "compile-failed"),
    ("torch._dynamo.exc.TorchRuntimeError: Failed running call_function <built-in method _scaled_mm>(*(FakeTensor(...)), **{}):\n"
     "Expected self.size(1) to be divisible by 16, but got self.size(1)=50", "fp8-size-not-16", "unknown-exception"),
    ("ray.exceptions.RayTaskError(OutOfMemoryError): ray::WorkerDict.update_actor() (pid=4711, ip=10.0.0.1)\n"
     '  File "trainer.py", line 10, in fit\n' f"{LEVELS}{OOM}", "out-of-memory", "child-failed"),
    ("ray.exceptions.RayTaskError(ValueError): ray::WorkerDict.update_actor() (pid=4711, ip=10.0.0.1)\n"
     "ValueError: micro-batch of nothing", "unknown-exception", "child-failed"),
    ("torch.multiprocessing.spawn.ProcessRaisedException: \n\n-- Process 3 terminated with the following error:\n"
     f"{LEVELS}{OOM}", "out-of-memory", "child-failed"),
    ("(TaskRunner pid=1) ray.exceptions.RayTaskError(OutOfMemoryError): ray::f() (pid=2)\n"
     "(TaskRunner pid=1) ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.", "host-out-of-memory", "child-failed"),
    ("triton.compiler.errors.CompilationError: at 1:0:\ndef kernel():\n"
     "ValueError(\"type fp8e4nv not supported in this architecture. The supported fp8 dtypes are ('fp8e5')\")",
     "gpu-without-fp8", "triton-failed"),
    ("node-2: AssertionError: Device compute capability 8.9 or higher required for FP8 execution.\n"
     "pdsh@login: node-2: ssh exited with exit code 1", "gpu-without-fp8", "child-failed"),
]  # fmt: skip


@each(("text", "root", "wrapper"), WRAPPED)
def test_the_inner_error_is_the_root_of_its_wrapper(text, root, wrapper, tmp_path):
    answer = answer_on(tmp_path, text)
    assert told(answer) == [(root, ""), (wrapper, root)]


@each(
    "text",
    [
        "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\nAssertionError: no lowering of aten.odd",
        "torch._inductor.exc.InductorError: AssertionError: no lowering of aten.odd",
        "[rank1]: torch._inductor.exc.LoweringException: AssertionError: no lowering of aten.odd\n[rank1]:   target: aten.odd.default",
    ],
)
def test_an_inner_error_that_is_unknown_is_quoted(text, tmp_path):
    (cause,) = answer_on(tmp_path, text).causes
    assert (cause.code, cause.message) == (
        "compile-failed",
        "torch.compile failed: AssertionError: no lowering of aten.odd",
    )


def test_a_failure_long_after_a_wrapper_does_not_explain_it(tmp_path):
    apart = "\n" * 60
    text = f"torch._dynamo.exc.Unsupported: odd code{apart}{LEVELS}{OOM}"
    assert told(answer_on(tmp_path, text)) == [
        ("compile-failed", ""),
        ("out-of-memory", ""),
    ]


PRINTED = {
    "torchrun": "[rank3]: {}",
    "torchrun --tee": "[default3]:{}",
    "srun --label": "3: {}",
    "mpirun": "[1,3]<stderr>:{}",
    "pdsh": "node-1: {}",
    "Ray": "\x1b[36m(WorkerDict pid=4711, ip=10.0.0.1)\x1b[0m {}",
    "kubectl": "2026-06-29T14:19:03.123456789Z {}",
    "compose": "worker-1  | {}",
    "coloured": "\x1b[1;31m{}\x1b[0m",
    "padded": "{}   ",
    "two": "gpu01: [2026-06-29 14:19:03] [rank3]: {}",
}
"""How launchers and terminals change a line."""


SHAPES = Shapes(texts())


def matching(line):
    """The causes and lines of trainers that the reader finds in a line."""
    (shape,) = shapes_of(line.encode())
    wanted = SHAPES.wanted([shape]).get(shape)
    text, _ = lines.clean(line.encode())
    return wanted and {
        *(one.name for one in wanted.causes if one.pattern.search(text)),
        *((one.trainer, one.name) for one in wanted.lines if one.pattern.search(text)),
    }


@pytest.mark.parametrize("form", PRINTED.values(), ids=PRINTED)
def test_every_line_is_found_as_launchers_print_it(form):
    examples = [(text.name, one) for text in texts() for one in text.examples]
    examples += [
        ((line.trainer, line.name), one["text"])
        for trainer in patterns.known().values()
        for line in trainer.lines
        for one in line.examples
    ]
    found = [(name, matching(form.format(one)), one) for name, one in examples]
    assert [one for name, names, one in found if not names or name not in names] == []


@each(
    ("text", "reason"),
    [
        ("(WorkerDict pid=12345, ip=10.0.0.1) RuntimeError: something odd", "something odd"),
        ("  traceback : Traceback (most recent call last):\n    File \"a.py\", line 4, in f\n      g()\n  ValueError: an odd shape", "an odd shape"),
        ("worker-3: [rank7]: KeyError: 'tokens'", "'tokens'"),
        ("[1,0]<stderr>:FloatingPointError: odd", "odd"),
        ("2026-06-29 14:19:03,123 RuntimeError: odd", "odd"),
    ],
)  # fmt: skip
def test_an_exception_behind_a_prefix_is_one(text, reason, tmp_path):
    (cause,) = answer_on(tmp_path, text).causes
    assert cause.code == "unknown-exception"
    assert cause.message.endswith(reason)


NAN = [
    "\n".join([step(1, 12.25), step(10, 9.25), step(20, "nan")]),
    "{'loss': 2.31, 'grad_norm': 1.2, 'epoch': 0.01}\n{'loss': 0.0, 'grad_norm': nan, 'epoch': 0.03}",
    " [2025-01-10 10:00:00] iteration       10/     100 | elapsed time per iteration (ms): 5484.6 | lm loss: NAN | grad norm: 1.2 |",
    "step 10 | epoch 0 | loss nan | grad_norm nan | lr 1.00e-05 | mem 45.67 GiB",
    "Training epoch 0, iteration 1/99 | lr: 1.961e-07 | global_step: 1 | reduced_train_loss: nan | train_step_timing in s: 2.008",
]


@each("text", NAN)
def test_nan_is_seen_as_trainers_print_it(text, tmp_path):
    assert told(answer_on(tmp_path, text)) == [("nan-loss", "")]


@each(
    "text",
    [
        # fp16's loss scaler skips such a step
        "{'loss': 2.31, 'grad_norm': inf, 'epoch': 0.01}\n{'loss': 2.2, 'grad_norm': 1.0, 'epoch': 0.02}",
        "{'loss': 0.0, 'grad_norm': 0.0, 'epoch': 0.01}",
        step(1, "nano"),
    ],
)
def test_no_nan(text, tmp_path):
    assert told(answer_on(tmp_path, text)) == []


DOTS = "." * 45
DUMPS = [
    ('config:\n{\n  "base_model": "x",\n  "fp8": true,\n  "capabilities": {\n    "fp8": false\n  }\n}', True),
    (f"  fp8 {DOTS} None\n  fp8_recipe ............ delayed", False),
    (f"(MegatronTrainRayActor pid=7, ip=10.0.0.1)   fp8 {DOTS} hybrid", True),
    ("model:\n  fp8: null\nmixed_precision:\n  fp8: null", False),
    ('  "model": {\n    "converters": [\n      "quantize.linear.float8"\n    ]\n  }', True),
    ("TrainingArguments(\nbf16=True,\nfp16=False,\n)", None),  # a script may convert
    ("TrainingArguments(\nbf16=False,\nfp8=True,\nfp8_backend=auto,\n)", True),
    ("fp8:\n  enabled: false\ncompile:\n  enabled: true", False),
]  # fmt: skip


@each(("dump", "asked"), DUMPS)
def test_a_printed_config_says_what_was_asked(dump, asked, tmp_path):
    answer = answer_on(tmp_path, dump)
    assert answer.verdict.asked is asked
    assert answer.verdict.word == ("not-fp8" if asked is False else "cannot-tell")


def test_a_trainer_is_named_by_its_own_lines_alone(tmp_path):
    named = {}
    for trainer in patterns.known().values():
        for line in trainer.lines:
            for example in line.examples:
                log = answer_on(tmp_path, example["text"])
                named.setdefault(example["text"], set()).add(
                    (trainer.name, log.trainer)
                )
    wrong = {
        text
        for text, pairs in named.items()
        if not {name for _, name in pairs} <= {name for name, _ in pairs} | {""}
    }
    assert wrong == set()


@each(
    "line",
    [
        # scripts of their own with Accelerate, tqdm, or a logger like torchtitan's
        "***** Running training *****",
        "  Instantaneous batch size per device = 2",
        " 25%|##5       | 1/4 [00:00<00:01,  2.36it/s]",
        "Saving checkpoint at step 500",
        "2025-12-14 05:41:22,709 - __main__ - INFO - Training completed",
        "{'loss': 1.25, 'lr': 0.001, 'step': 10}",
        '      "float8"',
    ],
)
def test_a_line_of_many_programs_names_no_trainer(line, tmp_path):
    assert answer_on(tmp_path, line).trainer == ""


@each(
    ("number", "name", "code"),
    [
        (1, "SIGHUP", "hung-up"),
        (6, "SIGABRT", "aborted"),
        (9, "SIGKILL", "killed"),
        (11, "SIGSEGV", "segmentation-fault"),
    ],
)
def test_a_signal_is_told_by_name(number, name, code, tmp_path):
    block = (
        "E0325 20:57:27.620000 2606 site-packages/torch/distributed/elastic/multiprocessing/api.py:869] "
        f"failed (exitcode: -{number}) local_rank: 5 (pid: 2630) of binary: python\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        f"  exitcode  : -{number} (pid: 2630)\n  traceback : Signal {number} ({name}) received by PID 2630"
    )  # fmt: skip
    answer = answer_on(tmp_path, block)
    assert told(answer) == [(code, ""), ("child-failed", code)]
    assert f"(signal {number})" in answer.causes[0].message
    assert name in answer.causes[0].message


def folder_of(tmp_path, files):
    """Verify a new folder with these files."""
    place = tmp_path / f"folder{len(list(tmp_path.iterdir()))}"
    for name, text in files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return verify((str(place),))


CURVE = [step(n, round(9 - n / 10, 4)) for n in range(1, 21)]
OTHER = [step(n, round(8 - n / 10, 4)) for n in range(1, 21)]
FAILED = f"{SWAPPED}\n[rank0]: NotImplementedError: \"add_stub\" not implemented for 'Float8_e4m3fn'"
BEGAN = TITAN + "Training starts at step 1"
WHOLE, OTHER_RUN = "\n".join(CURVE), "\n".join(OTHER)


@each(
    ("files", "runs"),
    [
        ({"slurm-1.out": FAILED, "slurm-2.out": WHOLE}, 2),
        ({"slurm-1.out": WHOLE, "slurm-1.err": FAILED}, 1),
        ({"a/train.log": WHOLE, "b/train.log": OTHER_RUN, "b/nccl.log": "NCCL INFO x"}, 2),
        ({"train.log": WHOLE, "copy.log": WHOLE}, 1),
        ({"x.log": f"{BEGAN}\n{WHOLE}", "y.log": f"{SWAPPED}\n{BEGAN}\n{WHOLE}"}, 2),
        ({"sweep_7_0.out": WHOLE, "sweep_7_1.out": OTHER_RUN}, 2),
        # ranks and nodes of one job
        ({"rank_0.log": WHOLE, "rank_1.log": FAILED}, 1),
        ({"0.log": WHOLE, "1.log": FAILED, "2.log": FAILED}, 1),
        ({"out.5": "", "x.3.log": "[rank3]: " + SWAPPED, "x.9.log": "[rank9]: " + SWAPPED}, 1),
        # a job that goes on where the one before it stopped
        ({"slurm-9.out": "\n".join(CURVE[:12]), "slurm-10.out": "\n".join(CURVE[10:])}, 1),
    ],
)  # fmt: skip
def test_a_folder_of_several_runs_has_a_verdict_for_each(files, runs, tmp_path):
    answer = folder_of(tmp_path, files)
    assert len(answer.runs or [answer]) == runs


def test_the_worst_of_several_runs_is_shown_after_a_table(fp8tune, project):
    project({"runs/slurm-1.out": WHOLE, "runs/slurm-2.out": FAILED})
    done = fp8tune("verify", "runs")
    assert (done.code, done.err) == (1, "")
    assert done.out.splitlines()[:5] == [
        "2 runs",
        "  slurm-1.out  CANNOT TELL",
        "  slurm-2.out  CANNOT TELL  failed: operator-without-fp8",
        "",
        "The worst of them, runs/slurm-2.out:",
    ]
    answer = json.loads(fp8tune("verify", "runs", "--output-format", "json").out)
    assert [len(each["causes"]) for each in answer["runs"]] == [0, 1]
    assert answer["causes"] == answer["runs"][1]["causes"]
    assert "runs" not in answer["runs"][0]
    whole = str(Path("runs/slurm-1.out").resolve())
    assert fp8tune("verify", whole, "runs/slurm-2.out").out == done.out.replace(
        "runs/slurm-1.out", whole
    )


def test_a_failure_after_which_another_log_goes_on_is_a_note(tmp_path):
    stopped = "\n".join([*CURVE[:12], f"{LEVELS}{OOM}"])
    answer = folder_of(tmp_path, {"j-1.out": stopped, "j-2.out": "\n".join(CURVE[10:])})
    assert [each.severity for each in answer.causes] == ["note"]
    assert not answer.failed


def test_a_trace_is_of_the_run_in_its_folder(tmp_path, capsys):
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 1, "pid": 1, "tid": 1},
        {"ph": "X", "cat": "cpu_op", "name": "autograd::engine::evaluate_function: MmBackward0", "ts": 3, "dur": 1, "pid": 1, "tid": 1},
    ]  # fmt: skip
    trace = json.dumps({"traceEvents": events})
    runs = {"a/x.log": WHOLE, "b/x.log": OTHER_RUN}
    answer = folder_of(tmp_path, {**runs, "b/traces/rank0_trace.json": trace})
    assert [len(each.traces) for each in answer.runs] == [0, 1]
    assert answer.runs[1].verdict.word == "not-fp8"
    answer = folder_of(tmp_path, {**runs, "trace.json": trace})
    assert [len(each.traces) for each in answer.runs] == [0, 0]
    assert "trace.json: skipped: of one of 2 runs" in capsys.readouterr().err


@each("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_log_in_utf_16(encoding, tmp_path):
    path = tmp_path / "run.log"
    mark = "" if encoding == "utf-16" else "\ufeff"
    path.write_bytes((mark + "before\r\n" + FAILED + "\r\n").encode(encoding))
    answer = verify((str(path),))
    assert told(answer) == [("operator-without-fp8", "")]
    assert answer.causes[0].line == 3


def few(fp8, other, **fields):
    gemms = {"fp8": Gemms(fp8, fp8), "other": Gemms(other, other)}
    return Trace("t.json", device="cuda", steps=1, trains=True, **gemms, **fields)


@each("backward", [True, False, None])
def test_few_fp8_gemms_are_partly_in_any_pass(backward):
    verdict = judge([], [few(20, 600, forward=True, backward=backward)])
    assert verdict.word == "partly"
    assert "20 of 620" in verdict.reasons[0].message


@each(
    "line",
    [
        "Building 2-D device mesh with ['dp_shard', 'tp'], [8, 2]",  # 0.1.0, 0.2.0
        "Building device mesh with parallelism: pp=1, dp_replicate=2, dp_shard=8, "
        "cp=1, tp=1, ep=1, etp=1",
    ],
)
def test_a_trace_of_another_number_of_gpus_does_not_verify(line, tmp_path):
    start = "[titan] 2025-12-14 04:41:20,709 - root - INFO - "
    path = tmp_path / "run.log"
    path.write_text(f"{start}{line}\n{start}Training starts at step 1.\n")
    log = log_of(str(path))
    trace = few(600, 20, forward=True, backward=True, world_size=8)
    verdict = judge([log], [trace])
    codes = [one.code for one in verdict.contradictions]
    assert (verdict.word, codes) == ("cannot-tell", ["other-world-size"])
