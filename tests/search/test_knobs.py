"""What a search may vary: the trainer's knobs, met by a config."""

import pytest
import torch
from torchao.float8 import Float8LinearConfig, convert_to_float8_training

from fp8tune.job import Target
from fp8tune.runners.builtin.spec import from_job
from fp8tune.search import CannotSearch
from fp8tune.search.knobs import OF_TRAINERS, expected_of_fp8, offers
from fp8tune.search.linting import check_tuned, without_refused
from fp8tune.search.plan import config_to_search, plan_for_trials, without_idle
from fp8tune.trials.space import Space
from tests.each import each

TITAN = """\
[model]
name = "llama3"
flavor = "8B"
converters = ["quantize.linear.float8"]
[training]
local_batch_size = 2
seq_len = 8192
steps = 100
[compile]
enable = true
"""
AUTOMODEL = """\
recipe: TrainFinetuneRecipeForNextTokenPrediction
step_scheduler: {local_batch_size: 2, global_batch_size: 64}
distributed: {strategy: {strategy}}
packed_sequence: {packed_sequence_size: 4096}
"""
FORGE = """\
[model]
dim = 4096
n_layers = 32
[train]
batch_size = 2
seq_len = 4096
mixed_precision = "fp8"
compile_model = true
"""
BF16 = FORGE.replace('"fp8"', '"bf16"')


def titan(text=TITAN, world_size=8):
    target = Target("h100", world_size, "--gpu", "--world-size")
    return config_to_search("a.toml", text.encode(), target, "torchtitan==0.2.2")


def forge(text=FORGE, world_size=16):
    target = Target("h100", world_size, "--gpu", "--world-size")
    return config_to_search("a.toml", text.encode(), target)


def offered(config, role, allow=(), **how):
    """What a search offers of one knob."""
    (offer,) = (o for o in offers(config, allow, "cuda", **how) if o.knob.role == role)
    return offer


def varied(plan):
    return {k.role: k.values for k in plan.space.knobs if not k.frozen}


RECIPES = ("tensorwise", "rowwise", "rowwise_with_gw_hp")
USUAL = {
    "micro_batch": (1, 2),
    "ac": ("none", "op", "every-2", "full"),
    "compile": (False, True),
}


@each(
    ("allow", "more"),
    [
        ((), {}),
        (
            ("fp8",),
            {
                "precision": ("fp8", "bf16"),
                "fp8_recipe": RECIPES,
                "fp8_all_gather": (False, True),
                "auto_filter": (False, True),
                "fp8_converts_head": (True, False),
            },
        ),
        (("fp8_recipe",), {"fp8_recipe": RECIPES}),
        (("sharding",), {"reshard": ("default", "never")}),
        (
            ("parallelism.fsdp_reshard_after_forward",),
            {"reshard": ("default", "never")},
        ),
    ],
)
def test_knobs_are_kept_until_they_are_allowed(allow, more):
    assert varied(plan_for_trials(titan(), allow, "cuda")) == USUAL | more


@each(
    ("filters", "values", "why"),
    [
        ('["wk"]', (True, False), ""),
        ('["output", "wk"]', (False, True), ""),
        ('["out"]', (False,), "it has no other value here"),
    ],
)
def test_the_head_is_a_knob_where_its_own_filter_decides(filters, values, why):
    config = titan(f"{TITAN}[quantize.linear.float8]\nfilter_fqns = {filters}\n")
    for allow in ((), ("fp8",)):
        head = offered(config, "fp8_converts_head", allow)
        assert head.knob.values == values
        assert not why or head.why == why
    for value in values:
        job = config.job.with_values({"fp8_converts_head": value})
        assert job["fp8_converts_head"] == value
        assert ("wk" in job["fp8_filters"]) == ("wk" in filters)


@each(
    ("read", "allow"), [(titan, ("fp8", "kernels", "sharding")), (forge, ("kernels",))]
)
def test_what_the_built_in_trial_varies_is_in_its_spec(read, allow):
    config = read()
    plan = plan_for_trials(config, ("precision", *allow), "cuda")
    knobs = [offer.knob for offer in plan.offers if not offer.why]
    assert len(knobs) > 5
    for knob in knobs:
        jobs = [config.job.keep_tokens({knob.key: value}) for value in knob.values]
        specs = [from_job(job, device="cuda", ranks=1) for job in jobs]
        values = {str(getattr(spec, knob.traits.spec)) for spec in specs}
        assert len(values) == len(knob.values), knob.role


def test_settings_exist_where_needs_are_met():
    plan = plan_for_trials(titan(), ("fp8",), "cuda")
    space = plan.space
    every = [space.params(point) for point in space.points(plan.baseline)]
    gathered = {p["fp8_recipe"] for p in every if p["fp8_all_gather"]}
    in_bf16 = [p for p in every if p["precision"] == "bf16"]
    roles = ("fp8_recipe", "fp8_all_gather", "auto_filter", "fp8_converts_head")
    assert gathered == {"tensorwise"}
    kept = {tuple(p[role] for role in roles) for p in in_bf16}
    assert kept == {("tensorwise", False, False, True)}
    assert not any(
        role in space.values(space.point(params))
        for params in in_bf16
        for role in roles
    )
    recipes = {
        space.value(point, "fp8_recipe")
        for point in plan_for_trials(titan(world_size=1), ("fp8",), "cuda").space.only
    }
    assert recipes == {"tensorwise", "rowwise"}


def test_what_the_trainer_refuses_is_left_out_before_a_trial():
    plan = without_refused(plan_for_trials(titan(), ("fp8",), "cuda"))
    params = map(plan.space.params, plan.space.only)
    filtered = {p["fp8_recipe"] for p in params if p["auto_filter"]}
    assert filtered == {"tensorwise", "rowwise"}
    (note,) = plan.notes
    assert note.endswith("[auto-filter-with-recipe]")
    plan = plan_for_trials(forge(), ("parallel",), "cuda", builtin=False)
    plan = without_refused(plan)
    params = map(plan.space.params, plan.space.only)
    with_fp8 = {
        p["distributed.tp"] for p in params if p["train.mixed_precision"] == "fp8"
    }
    assert with_fp8 == {1}


def test_what_every_search_varies_is_checked_too():
    tp = "tensor_parallel_degree = 2\nenable_async_tensor_parallel = true\n"
    config = titan(f"{TITAN}[parallelism]\n{tp}")
    plan = without_refused(plan_for_trials(config, (), "cuda"))
    compiled = {p["compile"] for p in map(plan.space.params, plan.space.only)}
    (why,) = (o.why for o in plan.offers if o.knob.role == "compile")
    assert compiled == {True}
    assert why.rpartition(" ")[2] == "[async-tensor-parallel-without-compile]"


def test_an_error_that_a_file_of_a_model_hides_is_no_error_of_a_knob():
    """Such a file is checked whole once it says how it trains."""
    model = "[model]\ndim = 8192\nn_layers = 80\nn_heads = 64\n"
    plan = plan_for_trials(forge(model), (), "cuda")
    assert without_refused(plan) == plan


ASYNC = '[checkpoint]\nasync_mode = "async"\n'
"""With it, FP8 loses the weights: the run itself goes on, so no trial would tell."""


def test_what_runs_otherwise_than_it_says_is_left_out_too():
    plan = without_refused(plan_for_trials(forge(BF16 + ASYNC), ("fp8",), "cuda"))
    points = plan.space.points(plan.baseline)
    assert {plan.space.value(point, "precision") for point in points} == {"bf16"}
    (why,) = (o.why for o in plan.offers if o.knob.role == "precision")
    assert why.startswith("with train.mixed_precision = fp8: ")
    assert why.endswith("[fp8-weights-lost-in-async-checkpoint]")
    assert not any("left out" in note for note in plan.notes)
    plan = plan_for_trials(forge(FORGE + ASYNC), ("fp8",), "cuda")
    assert without_refused(plan) == plan  # the config has it already


def test_recipes_are_tried_without_the_all_gather_that_the_file_has():
    """Another recipe alone implies that, but the trainer refuses the file's key."""
    table = "[quantize.linear.float8]\nenable_fsdp_float8_all_gather = true\n"
    config = titan(TITAN + table)
    plan = without_refused(plan_for_trials(config, ("fp8",), "cuda"))
    values = [plan.space.params(point) for point in plan.space.points(plan.baseline)]
    pairs = {(each["fp8_recipe"], each["fp8_all_gather"]) for each in values}
    assert pairs == {("tensorwise", True), *((recipe, False) for recipe in RECIPES)}
    keys = config.job.keys_for({"fp8_recipe": "rowwise", "fp8_all_gather": False})
    assert keys["quantize.linear.float8.enable_fsdp_float8_all_gather"] is False


def test_bf16_is_the_counterpart_of_every_recipe():
    plan = plan_for_trials(titan(), ("fp8",), "cuda")
    space, own = plan.space, plan.space.params(plan.baseline)
    rowwise = space.point({**own, "fp8_recipe": "rowwise"})
    bf16 = space.point({**own, "precision": "bf16"})
    assert space.in_bf16(rowwise) == bf16
    assert space.in_precision(bf16, "fp8") == plan.baseline


def test_a_recipe_of_the_file_is_the_first_value_and_can_be_left():
    text = f'{TITAN}[quantize.linear.float8]\nrecipe_name = "rowwise"\n'
    config = titan(text)
    plan = plan_for_trials(config, ("fp8_recipe",), "cuda")
    knob = plan.space.knob("fp8_recipe")
    assert knob.values == ("rowwise", "tensorwise", "rowwise_with_gw_hp")
    written = [config.job.keys_for({"fp8_recipe": value}) for value in knob.values]
    key = "quantize.linear.float8.recipe_name"
    assert written == [{}, {key: None}, {key: "rowwise_with_gw_hp"}]


def test_a_knob_whose_condition_cannot_be_checked_is_kept(monkeypatch):
    config = forge()
    knob = config.trainer.knobs["optimizer_kernel"]
    monkeypatch.setattr(knob, "needs", "optimiser == 'adamw'")
    kept = offered(config, "optimizer_kernel", ("kernels",))
    assert kept.knob.frozen
    assert kept.why.startswith("its condition `optimiser == 'adamw'` cannot be checked")
    assert not offered(config, "attention", ("kernels",)).knob.frozen


def test_parallel_degrees_keep_the_tokens_of_a_step():
    config = forge(world_size=8)
    before = config.job["step.tokens"]
    after = config.job.keep_tokens({"tp": 2})
    assert (after["step.tokens"], after["grad_accum"]) == (before, 2)


@each(
    ("allow", "builtin", "said"),
    [
        (("tp",), True, "--allow tp: fp8tune's own trial cannot run it"),
        (("precison",), True, "did you mean `precision`?"),
        (("data",), False, "it can free compile, fp8, kernels, parallel, warmup"),
        (
            ("fp8", "sharding"),
            False,
            "--allow sharding: this trainer has no knob of that group; "
            "it can free compile, fp8, kernels, parallel, warmup",
        ),
    ],
)
def test_what_cannot_be_allowed(allow, builtin, said):
    with pytest.raises(CannotSearch) as error:
        plan_for_trials(forge(BF16), allow, "cpu", builtin=builtin)
    assert said in str(error.value)


@each(
    ("text", "gpus", "role", "why"),
    [
        (FORGE, 16, "tp", "it needs precision != 'fp8'"),
        (BF16, 16, "tp", OF_TRAINERS),
        (BF16, 1, "tp", "it has no other value here"),
        (BF16, 16, "optimizer_kernel", "it changes rounding of the optimizer's step"),
        (
            f'{BF16}[optimizer]\nname = "lion"\n',
            16,
            "optimizer_kernel",
            "it needs optimizer == 'adamw'",
        ),
    ],
)
def test_what_a_knob_needs_is_said_before_what_frees_it(text, gpus, role, why):
    assert offered(forge(text, gpus), role).why == why


def test_a_batch_without_another_value_keeps_the_tokens():
    one = forge(BF16.replace("batch_size = 2", "batch_size = 1"))
    why = "no other value keeps the tokens of a step"
    assert offered(one, "micro_batch", ("micro_batch",)).why == why


def test_a_need_that_the_config_meets_is_not_named():
    """With FP8 allowed, a config in bf16 has no TP there, but may have it in bf16."""
    assert offered(forge(BF16), "tp", ("fp8",)).why == OF_TRAINERS


BOTH, KEPT = ("bf16", "fp8"), ("bf16",)


@each(
    ("more", "gpu", "allow", "values", "why"),
    [
        ("", "h100", (), BOTH, "it changes numerics of the linears"),
        ("[distributed]\ntp = 4\n", "h100", (), BOTH, "FP8 needs tp == 1"),
        (
            "[distributed]\ntp = 2\n",
            "h100",
            ("fp8",),
            KEPT,
            "a trial cannot represent FP8 with tensor parallelism of 2: the trainer "
            "refuses it",
        ),
        ("", "a100", ("fp8",), KEPT, "the GPU has no FP8"),
        ("", "", ("train.mixed_precision",), BOTH, ""),
    ],
)
def test_the_precisions_of_a_config_in_bf16(more, gpu, allow, values, why):
    config = config_to_search("a.toml", f"{BF16}{more}".encode(), Target(gpu, 16))
    found = offered(config, "precision", allow, builtin=bool(allow))
    assert (found.knob.values, found.why) == (values, why)


def test_values_that_no_setting_has_are_not_offered():
    plan = plan_for_trials(forge(BF16), ("fp8",), "cuda")
    place = plan.space.place("precision")
    assert plan.space.knobs[place].values == ("bf16", "fp8")
    other = {(*p[:place], 0, *p[place + 1 :]) for p in plan.space.only}
    kept = without_idle(plan._replace(space=Space(plan.space.knobs, other)))
    said = {offer.knob.role: offer for offer in kept.offers}
    assert said["precision"].why == "no setting can have another value"
    place = plan.space.place("ac")
    fewer = {point for point in plan.space.only if point[place] < 2}
    kept = without_idle(plan._replace(space=Space(plan.space.knobs, fewer)))
    said = {offer.knob.role: offer for offer in kept.offers}
    assert said["ac"].knob.values == plan.space.knobs[place].values[:2]


def test_too_many_settings_are_refused():
    every = ("fp8", "kernels", "sharding", "parallel")
    with pytest.raises(CannotSearch, match=r"values: dp_replicate 7, cp 7, tp 4, ac 4"):
        plan_for_trials(titan(world_size=64), every, "cuda", builtin=False)


def test_a_knob_may_be_of_one_command():
    commands = {
        "sft": '[data]\ntype = "sft"\nbatch_size = 8\n',
        "rl": "[orchestrator]\nbatch_size = 8\n",
    }
    roles = {}
    for command, text in commands.items():
        named = f"prime_rl==0.8.1.dev67.{command}"
        config = config_to_search("a.toml", text.encode(), Target("h100", 8), named)
        roles[command] = [o.knob.role for o in offers(config, (), "cuda")]
    assert roles == {
        "sft": ["micro_batch", "ac", "precision", "reshard"],
        "rl": [],
    }


def test_automodel_is_compiled_by_the_key_that_its_strategy_reads():
    text = AUTOMODEL.replace("{strategy}", "fsdp2")
    config = config_to_search("a.yaml", text.encode(), Target("h100", 8))
    space = plan_for_trials(config, (), "cuda", builtin=False).space
    assert space.knob("compile").values == (False, True)
    keys = config.job.keys_for({"compile": True})
    assert keys == {"distributed.enable_compile": True}
    text = AUTOMODEL.replace("{strategy}", "ddp")
    config = config_to_search("a.yaml", text.encode(), Target("h100", 8))
    plan = plan_for_trials(config, (), "cuda", builtin=False)
    (compiled,) = (each for each in plan.offers if each.knob.role == "compile")
    assert compiled.why == "it needs strategy == 'fsdp2'"


def test_the_answer_says_what_is_expected_of_recipes_that_were_kept():
    config = titan()
    kept = offers(config, (), "cuda")
    found = expected_of_fp8(config, kept, {})
    said = {(each.key, each.value): (each.speed, each.memory) for each in found}
    job = config.job
    speeds = [
        job.with_values(changes)["speed.tokens_per_second"]
        for changes in ({"fp8_recipe": "rowwise"}, {})
    ]
    assert said["fp8_recipe", "rowwise"] == (speeds[0] / speeds[1], 0.0)
    assert said["fp8_recipe", "rowwise_with_gw_hp"] == (None, 0.0)
    assert expected_of_fp8(config, kept, {"precision": "bf16"}) == []
    alone = titan(world_size=1)
    found = expected_of_fp8(alone, offers(alone, (), "cuda"), {})
    assert "rowwise_with_gw_hp" not in {each.value for each in found}


def test_what_the_trainer_refuses_is_not_written():
    check_tuned(forge(), forge())
    with pytest.raises(CannotSearch, match="KempnerForge refuses this config: FP8 "):
        check_tuned(forge(), forge(f"{FORGE}[distributed]\ntp = 2\n"))
    with pytest.raises(CannotSearch, match="does not run this config as it says: `ch"):
        check_tuned(forge(), forge(FORGE + ASYNC))


@pytest.mark.parametrize("recipe", ["rowwise", "rowwise_with_gw_hp"])
def test_torchao_cannot_autocast_one_recipe(recipe):
    """A knob of torchtitan needs this: on one GPU it autocasts fp32 weights."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 64, bias=False))
    config = Float8LinearConfig.from_recipe_name(recipe)
    convert_to_float8_training(model, config=config)
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(torch.ones(32, 64, requires_grad=True)).sum()
    if recipe == "rowwise":
        loss.backward()
    else:
        with pytest.raises(RuntimeError, match="same dtype"):
            loss.backward()
