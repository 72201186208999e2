"""Error texts as torch and torchao on this machine raise them have their causes."""

import functools
import io
import logging
import warnings

import pytest

torch = pytest.importorskip("torch")
torchao = pytest.importorskip("torchao")

from fp8tune.verify import causes  # noqa: E402
from fp8tune.verify.evidence import Log  # noqa: E402
from tests.each import each  # noqa: E402
from tests.verify.files import signs_of  # noqa: E402

FP8 = torch.float8_e4m3fn


def scaled_mm(rows, inner, columns):
    """An FP8 GEMM on fake CUDA tensors, which have CUDA's checks."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        a = torch.empty(rows, inner, dtype=FP8, device="cuda")
        b = torch.empty(columns, inner, dtype=FP8, device="cuda").t()
        scale = torch.ones((), device="cuda")
        torch._scaled_mm(a, b, scale, scale, out_dtype=torch.bfloat16)


def recipe(name, **fields):
    from torchao.float8 import Float8LinearConfig

    made = Float8LinearConfig.from_recipe_name(name)
    return Float8LinearConfig(**{**made.__dict__, **fields})


def auto_filter(name):
    from torchao.float8 import _auto_filter_for_recipe

    _auto_filter_for_recipe(name, [])


def half_a_gemm():
    from torchao.float8.config import CastConfig, Float8LinearConfig, ScalingType

    Float8LinearConfig(cast_config_input=CastConfig(scaling_type=ScalingType.DISABLED))


def plan_on_a_linear():
    from torchao.float8.float8_tensor_parallel import Float8ColwiseParallel

    Float8ColwiseParallel()._apply(torch.nn.Linear(16, 16), None)


def unscaled():
    weight = torch.nn.Parameter(torch.ones(2, dtype=torch.float16))
    weight.grad = torch.ones(2, dtype=torch.float16)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(torch.ones(()))
    scaler.unscale_(torch.optim.SGD([weight], lr=0.1))


def other_shape():
    saved = torch.nn.Linear(4, 5).state_dict()
    torch.nn.Linear(4, 6).load_state_dict(saved)


def other_class():
    file = io.BytesIO()
    torch.save(functools.partial(print), file)
    file.seek(0)
    torch.load(file)


def other_layout(folder):
    from torch.distributed import checkpoint

    checkpoint.save({"a": torch.ones(4)}, checkpoint_id=folder, no_dist=True)
    checkpoint.load({"b": torch.ones(4)}, checkpoint_id=folder, no_dist=True)


def other_size(folder):
    from torch.distributed import checkpoint

    checkpoint.save({"a": torch.ones(4)}, checkpoint_id=folder, no_dist=True)
    checkpoint.load({"a": torch.ones(5)}, checkpoint_id=folder, no_dist=True)


def half():
    return torch.ones(2, 2).to(FP8)


RAISED = {
    "operator-without-fp8": [
        lambda _: half() + half(),
        lambda _: half() + torch.ones(2, 2, dtype=torch.bfloat16),
        lambda _: torch.nn.functional.layer_norm(half(), (2,)),
    ],
    "fp8-size-not-16": [
        lambda _: scaled_mm(32, 50, 64),
        lambda _: scaled_mm(32, 64, 50),
    ],
    "unknown-fp8-recipe": [lambda _: recipe("rowise")],
    "fp8-all-gather-with-recipe": [
        lambda _: recipe("rowwise", enable_fsdp_float8_all_gather=True)
    ],
    "auto-filter-with-recipe": [lambda _: auto_filter("rowwise_with_gw_hp")],
    "fp8-mixed-operands": [lambda _: half_a_gemm()],
    "fp8-plan-on-other-linear": [lambda _: plan_on_a_linear()],
    "fp16-weights-with-scaler": [lambda _: unscaled()],
    "checkpoint-of-another-layout": [lambda _: other_shape(), other_layout, other_size],
    "checkpoint-unreadable": [lambda _: other_class()],
    "driver-too-old": [lambda _: torch.ones(1, device="cuda")],
    "package-missing": [lambda _: __import__("no_such_package")],
    "data-not-found": [lambda _: open("/nowhere/train_000.npy")],  # noqa: SIM115
}


@pytest.mark.filterwarnings("ignore")
@each(
    ("name", "act"),
    [(name, act) for name, acts in RAISED.items() for act in acts],
)
def test_an_error_as_it_is_raised_here(name, act, tmp_path):
    with pytest.raises(BaseException) as raised:  # noqa: PT011
        act(str(tmp_path))
    kind = type(raised.value).__qualname__
    text = f"{kind}: {raised.value}"
    found = causes.diagnose([Log("run.log", signs=signs_of(text))], [])
    assert [one.code for one in found if not one.after] == [name], text[:300]


def test_a_warning_as_it_is_given_here():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with torch.autocast("cpu", dtype=FP8):
            pass
    signs = [s.cause for one in caught for s in signs_of(str(one.message))]
    assert signs == ["autocast-off"]


def test_the_recompile_limit_as_it_is_logged_here(caplog):
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, n: x * n, backend="eager", dynamic=False)
    with (
        caplog.at_level(logging.WARNING),
        torch._dynamo.config.patch(recompile_limit=2),
    ):
        logging.getLogger("torch").propagate = True
        logging.getLogger("torch._dynamo").propagate = True
        for size in range(2, 8):
            compiled(torch.ones(size), 1.5)
    said = "\n".join(record.getMessage() for record in caplog.records)
    assert {sign.cause for sign in signs_of(said)} == {"recompile-limit"}
