"""What a search's values make wrong in the user's own words."""

import pytest

from fp8tune.job import Target
from fp8tune.search import CannotSearch
from fp8tune.search.knobs import keys_to_free
from fp8tune.search.linting import aftermath, check_config, failing, refusals, runnable
from fp8tune.search.plan import config_to_search, plan_for_trials
from fp8tune.search.write.writeback import Choice, write_back
from fp8tune.trials.record import from_data
from tests.each import each
from tests.sample import SMALL_MODEL
from tests.search.replayed import CONFIG as REPLAYED
from tests.search.replayed import RECORDS

CONFIG = """\
# 7B on 8 GPUs, full AC
[train]
batch_size = 2  # 2 sequences per GPU
seq_len = 4096
grad_accum_steps = 4
mixed_precision = "fp8"
compile_model = true
activation_checkpointing = "full"
[scheduler]
warmup_steps = 10
"""


def notes(project, *choices, config=CONFIG, files=None):
    project(files or {})
    before = config.encode()
    after = write_back(before, [Choice(*choice, "why") for choice in choices])
    return list(aftermath("a.toml", before, after, Target("h100-sxm", 8)))


@each("steps", ["4", "4  # 8 micro-batches"])
def test_nothing_becomes_wrong(project, steps):
    """A finding on the changed line is not new."""
    config = CONFIG.replace("steps = 4", f"steps = {steps}")
    assert notes(project, ("train.grad_accum_steps", 2), config=config) == []


def test_an_ignore_that_is_not_needed_any_more(project):
    line = "compile_model = false  # fp8tune: ignore[fp8-without-compile] -- slow\n"
    config = CONFIG.replace("compile_model = true\n", line)
    said = notes(project, ("train.compile_model", True), config=config)
    assert len(said) == 1
    assert "fp8-without-compile" in said[0]


TRAIN = '[train]\nbatch_size = {}\nseq_len = {}\nmixed_precision = "fp8"\n'
FINE, LONG, ODD, LOW = (
    SMALL_MODEL + TRAIN.format(*values)
    for values in ((2, 32), (2, 4096), (1, 24), (-2, 32))
)


FREE = {"train.batch_size", "train.activation_checkpointing", "train.compile_model"}


def found(text, *allow, device="cuda"):
    config = config_to_search("a.toml", text.encode(), Target(), world_size=1)
    return list(refusals(config, keys_to_free(config, allow, device)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{FINE}foo = 1\n", "[train] has no key `foo` [unknown-key]; KempnerForge re"),
        (LOW, "is out of range: it must be above 0 [value-out"),
        (
            LONG,
            "is more than `model.max_seq_len = 32` [seq-len-above-max-seq-len]; Kemp",
        ),
    ],
)
def test_what_the_trainer_refuses(text, said):
    (line,) = found(text)
    assert line.startswith("a.toml:")
    assert said in line
    assert line.endswith("; KempnerForge refuses this config")


@pytest.mark.parametrize(
    "text",
    [
        FINE,
        f"{FINE}foo = 1  # fp8tune: ignore[unknown-key] -- our fork reads it\n",
        f"{FINE}[distributed]\ndp_shard = 8\n",
    ],
)
def test_what_the_trainer_runs(text):
    assert found(text) == []


def test_keys_of_a_fork_are_kept_and_told(project):
    text = f"{FINE}[mup]\nbase = 64\n"
    (line,) = refusals(config_to_search("a.toml", text.encode(), Target()), ())
    assert "`mup` [unknown-key]" in line
    project({"pyproject.toml": "[tool.fp8tune]\nextra-keys = ['mup']\n"})
    config = config_to_search("a.toml", text.encode(), Target())
    assert not list(refusals(config, ()))
    plan = plan_for_trials(config, (), "cuda")
    assert [note for note in plan.notes if note.startswith("`mup` (extra-keys)")]


def test_what_the_search_changes_is_left_to_it():
    (line,) = refusals(config_to_search("a.toml", ODD.encode(), Target()), ())
    assert "[fp8-tokens-not-16]; KempnerForge crashes on this config" in line
    assert found(ODD) == []


@each(
    ("more", "said"),
    [
        ("", "and no other value of a knob changes that"),
        ("grad_accum_steps = 2\n", "but not with train.batch_size = 2"),
    ],
)
def test_an_error_that_the_search_begins_with_is_said_with_its_cure(more, said):
    config = config_to_search("a.toml", f"{ODD}{more}".encode(), Target())
    (note,) = failing(plan_for_trials(config, (), "cuda"))
    assert note.endswith(f"; KempnerForge crashes on this config, {said}")


@pytest.mark.parametrize(
    ("allow", "device", "expected"),
    [
        ((), "cuda", {"compile_model"}),
        ((), "cpu", set()),
        (("compile",), "cpu", {"compile_model"}),
        (("precision",), "cpu", {"mixed_precision"}),
        (("train.mixed_precision",), "cpu", {"mixed_precision"}),
    ],
)
def test_the_keys_that_a_search_changes(allow, device, expected):
    config = config_to_search("a.toml", FINE.encode(), Target())
    always = {"batch_size", "grad_accum_steps", "activation_checkpointing"}
    expected = {f"train.{name}" for name in always | expected}
    assert keys_to_free(config, allow, device) == expected


def test_a_model_that_the_trainer_cannot_build_whole():
    """A trial of one rank builds its share alone and would not see it."""
    shape = {"dim": 8192, "n_layers": 80, "n_heads": 64, "n_kv_heads": 8}
    lines = [f"{key} = {value}\n" for key, value in shape.items()]
    text = f"[model]\n{''.join(lines)}vocab_size = 128256\n"
    text += "[train]\nbatch_size = 1\n[distributed]\ndp_shard = 64\n"
    target = Target("h100-sxm", 64, "--gpu", "--world-size")
    (line,) = refusals(config_to_search("a.toml", text.encode(), target), FREE)
    assert line.endswith(
        " [whole-model-before-sharding]; KempnerForge runs out of memory"
    )


def test_the_first_is_said_and_how_many_more():
    config = config_to_search(
        "a.toml", f"{LONG}foo = 1\nbatchsize = 2\n".encode(), Target()
    )
    with pytest.raises(CannotSearch, match="fix that and 2 more first, see: fp8tune"):
        check_config(config, ())


@pytest.mark.parametrize(
    ("origins", "options"),
    [(("--gpu", "--world-size"), " --gpu h100 --world-size 8"), (("line 1",) * 2, "")],
)
def test_the_command_that_shows_it_has_the_target_that_was_given(origins, options):
    target = Target("h100", 8, *origins)
    config = config_to_search("a.toml", f"{FINE}foo = 1\n".encode(), target)
    with pytest.raises(CannotSearch, match=f"see: fp8tune lint a.toml{options}$"):
        check_config(config, ())


REFUSED = f'{LONG}compile_model = true\nactivation_checkpointing = "full"\n'
TENSOR_PARALLEL = REPLAYED + "[distributed]\ntp = 2\n"
"""The trainer refuses FP8 with it; the precision is a knob, but a frozen one."""


@pytest.mark.parametrize(
    ("config", "rule"),
    [
        (REFUSED, "seq-len-above-max-seq-len"),
        (TENSOR_PARALLEL, "fp8-with-tensor-parallel"),
    ],
)
def test_real_trials_and_replays_say_the_same_of_a_config(
    replay, fp8tune, tmp_path, config, rule
):
    """Real trials end there; a replay costs nothing and goes on."""
    replayed = replay(RECORDS, config=config)
    command = ("search", "a.toml", "--device", "cpu", "--studies", "none")
    real = fp8tune(*command, "--budget", "9s")
    (note,) = (line for line in replayed.err.splitlines() if rule in line)
    refusal = note.removeprefix("note: ")
    assert refusal.endswith(f" [{rule}]; KempnerForge refuses this config")
    assert real.err.startswith(f"fp8tune: {refusal}; fix that first, ")
    assert (replayed.code, real.code, real.out) == (0, 2, "")
    assert not (tmp_path / "none").exists()


def test_a_knob_of_several_keys_is_checked_in_a_replay():
    text = "base_model: Qwen/Qwen3-8B\nbf16: true\nadapter: lora\nload_in_8bit: true\n"
    config = config_to_search("a.yaml", text.encode(), Target("h100", 8), "axolotl")
    each = [{"precision": name, "unknown": 1} for name in ("bf16", "fp8")]
    records = [from_data({"knobs": knobs, "outcome": "oom"}) for knobs in each]
    (kept,), (note,) = runnable(config, records)
    assert (kept, note.rpartition(" ")[2]) == (records[0], "[fp8-with-8-bit-weights]")


def test_a_replay_that_may_change_the_precision_does_not_refuse_it(replay):
    done = replay(RECORDS, "--allow", "precision", config=TENSOR_PARALLEL)
    assert done.code == 0
    assert "refuses this config, but not with train.mixed_precision = bf16" in done.err
