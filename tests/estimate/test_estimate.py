"""Estimates: figures with their range, what is unknown is said, 80 columns suffice."""

import json

import pytest

H200 = ("--gpu", "h200", "--world-size", "16")
JSON = ("--output-format", "json")
SEVEN_B = """[model]
n_kv_heads = 8
vocab_size = 128256
ffn_hidden_dim = 14336
max_seq_len = 4096
[train]
batch_size = 8
seq_len = 4096
grad_accum_steps = 4
activation_checkpointing = "full"
"""
CONFIG = "configs/llama3_7b_16xh100_fp8.toml"


@pytest.fixture
def estimate(fp8tune, repository):
    def run(*arguments, config=CONFIG):
        return fp8tune("estimate", str(repository / config), *arguments)

    return run


def test_json(estimate):
    outcome = estimate("--output-format", "json")
    assert (outcome.code, outcome.err) == (0, "")
    said = outcome.json
    memory, speed = said["memory"], said["speed"]
    assert said["version"] == 1
    assert memory["low_gib"] <= memory["peak_gib"] <= memory["high_gib"]
    assert memory["peak_gib"] == pytest.approx(
        sum(memory["breakdown_gib"].values()), rel=0.05
    )
    assert speed["low"] <= speed["tokens_per_second"] <= speed["high"]
    assert said["fit"] in ("fits", "tight", "out-of-memory", "unknown")
    assert said["fp8_pays"] in ("yes", "marginal", "no", "unknown")
    assert said["reasons"]
    assert {row["name"] for row in said["gemms"]} >= {"q_proj", "head", "attention"}
    assert sum(row["flop_share"] for row in said["gemms"]) == pytest.approx(1)


def test_the_grid_keeps_the_sequences_of_a_step(estimate):
    cells = estimate("--output-format", "json").json["grid"]
    assert {cell["micro_batch"] * cell["grad_accum"] for cell in cells} == {16}
    assert {cell["precision"] for cell in cells} == {"fp8", "bf16"}
    assert {cell["ac"] for cell in cells} == {"none", "full", "selective"}


def test_memory_grows_with_the_micro_batch(estimate):
    cells = estimate("--output-format", "json").json["grid"]
    for mode in ("none", "full", "selective"):
        peaks = [
            cell["peak_gib"]
            for cell in cells
            if (cell["ac"], cell["precision"]) == (mode, "bf16")
        ]
        assert peaks == sorted(peaks)


def test_the_start_fits(estimate):
    said = estimate("--output-format", "json").json
    assert said["start"]["fit"] == "fits"
    fast = [c["tokens_per_second"] for c in said["grid"] if c["fit"] == "fits"]
    assert said["start"]["tokens_per_second"] <= max(fast)


REFUSED = SEVEN_B.replace("[train]", "[train]\nmixed_precision = 'fp8'")
REFUSED = REFUSED.replace("128256", "50257")
EAGER = SEVEN_B.replace("[train]", "[train]\ncompile_model = false\n{}")


@pytest.mark.parametrize(
    ("text", "pays", "kept", "preferred", "words"),
    [
        (SEVEN_B, "yes", "bf16", "fp8", "bf16 (the config's), micro-batch"),
        (SEVEN_B, "yes", "bf16", "fp8", "or, as FP8 pays here, fp8, micro-batch"),
        (
            EAGER.format("mixed_precision = 'fp8'"),
            "no",
            "fp8",
            "bf16",
            "or, as FP8 does not pay here, bf16, micro-batch",
        ),
        (EAGER.format(""), "no", "bf16", None, "start with bf16 (the config's)"),
        (REFUSED, "no", "bf16", None, "start with bf16 (fp8 cannot run), micro-"),
        (
            SEVEN_B.replace("[train]", "[train]\nmixed_precision = 'fp32'"),
            "yes",
            "fp32",
            None,
            "fits is fp32 (the config's), micro-batch",
        ),
    ],
)
def test_the_precision_of_the_start_has_its_reason(
    fp8tune, project, text, pays, kept, preferred, words
):
    project({"a.toml": text})
    said = fp8tune("estimate", "a.toml", *H200, *JSON).json
    assert (said["fp8_pays"], said["start"]["precision"]) == (pays, kept)
    assert (said["preferred"] or {}).get("precision") == preferred
    assert words in " ".join(fp8tune("estimate", "a.toml", *H200).out.split())


def test_savings_are_largest_first(estimate):
    freed = [
        s["freed_gib"] for s in estimate("--output-format", "json").json["savings"]
    ]
    assert freed == sorted(freed, reverse=True)
    assert freed[0] == pytest.approx(29.9, abs=0.1)  # fp32 gradients: 4 bytes x 8.03e9


@pytest.mark.parametrize(
    "config", ["llama3_7b_16xh100_fp8", "moe_9b_8xh200_bf16", "rehearsal_cpu"]
)
def test_text_fits_80_columns(estimate, config):
    outcome = estimate(config=f"configs/{config}.toml")
    assert (outcome.code, outcome.err) == (0, "")
    assert max(map(len, outcome.out.splitlines())) <= 80 or "/" in outcome.out
    lines = outcome.out.splitlines()[1:]
    assert max(map(len, lines)) <= 80


def test_what_is_unknown_is_said(fp8tune, project):
    project({"a.toml": '[train]\nmixed_precision = "fp8"\n'})
    outcome = fp8tune("estimate", "a.toml")
    assert "fit: unknown: say --gpu h100" in outcome.out
    assert "speed: unknown: say --gpu h100" in outcome.out
    said = fp8tune("estimate", "a.toml", "--output-format", "json").json
    assert said["fit"] == "unknown"
    assert said["speed"]["tokens_per_second"] is None


def test_without_a_number_of_gpus_some_are_assumed_and_others_shown(fp8tune, project):
    project({"a.toml": f"{SEVEN_B}[distributed]\ntp = 4\n"})
    said = fp8tune("estimate", "a.toml", "--gpu", "h100", *JSON).json
    sizes = [entry["world_size"] for entry in said["world_sizes"]]
    assert sizes == [4, 8, 16, 32, 64, 128, 256, 512]
    peaks = [entry["peak_gib"] for entry in said["world_sizes"]]
    assert peaks == sorted(peaks, reverse=True)
    assert said["target"]["world_size"] == 8
    assert said["memory"]["peak_gib"] == peaks[1]
    assert said["memory"]["breakdown_gib"]
    assert said["start"]
    text = fp8tune("estimate", "a.toml").out
    assert "on 8 GPUs, as nothing says how many: say --world-size 16" in text
    assert "  GPUs             4       8" in text


@pytest.mark.parametrize(
    ("title", "distributed", "size", "words"),
    [
        ("", "dp_shard = 3\ntp = 4", 12, "on 12 GPUs, by the parallel degrees"),
        ("# 7B on 12 GPUs\n", "tp = 4", 12, "on 12 GPUs, by the title on line 1"),
        ("# 7B on 10 GPUs\n", "tp = 4", 8, "on 8 GPUs, as nothing says how many"),
    ],
)
def test_how_many_gpus_a_file_is_for(fp8tune, project, title, distributed, size, words):
    text = f"{title}{SEVEN_B}[distributed]\n{distributed}\n"
    project({"a.toml": text})
    said = fp8tune("estimate", "a.toml", "--gpu", "h200", *JSON).json
    assert said["target"]["world_size"] == size
    listed = [entry["world_size"] for entry in said["world_sizes"]]
    assert listed == ([] if "dp_shard" in distributed else listed)
    assert words in fp8tune("estimate", "a.toml", "--gpu", "h200").out
    known = ("--gpu", "h200", "--world-size", str(size), *JSON)
    same = fp8tune("estimate", "a.toml", *known).json
    assert {**same, "target": {}, "world_sizes": []} == {
        **said,
        "target": {},
        "world_sizes": [],
    }


def test_without_a_gpu_it_is_said_on_which_it_fits(fp8tune, project):
    project({"a.toml": SEVEN_B})
    said = fp8tune("estimate", "a.toml", "--world-size", "16", *JSON).json
    assert (said["fit"], said["world_sizes"]) == ("unknown", [])
    assert "h200" in said["gpus"]["fits"]
    assert "h100-sxm" in said["gpus"]["tight"]
    assert "l4" in said["gpus"]["out-of-memory"]
    text = fp8tune("estimate", "a.toml", "--world-size", "16").out
    assert "fit: unknown: say --gpu h100" in text
    known = fp8tune("estimate", "a.toml", "--world-size", "16", "--gpu", "h100", *JSON)
    assert (known.json["fit"], known.json["gpus"]) == ("tight", {})


VLM = """[vision_encoder]
{}
[vlm]
max_text_len = 512
[data]
hf_dataset_name = "x/y"
tokenizer_path = "gpt2"
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            VLM.format("type = 'siglip2'\npath = 'x/y'\nnum_tokens = 196\n"),
            "vision encoders other",
        ),
        (VLM.format("num_tokens = 196"), "what compiled blocks of mixtures"),
        (
            f"{VLM.format('num_tokens = 196')}[train]\ncompile_model = false\n",
            "vision-language models",
        ),
        ("[train]\ncompile_model = false\n[model]\nnum_experts = 8\n", "mixtures of"),
        ("[model]\ndim = 512\nn_heads = 8\nn_kv_heads = 8\n", "hidden sizes below"),
        ("[optimizer]\nname = 'muon'\n", "the time of this optimizer's step"),
        ("[model]\nactivation = 'gelu'\n", "compiled blocks keep without full AC if"),
        (
            "[train]\nactivation_checkpointing = 'selective'\n[distributed]\ntp = 4\n",
            "under selective AC with tensor parallelism; AC none and full have a",
        ),
        ("[model]\nqk_norm = true\n", "or queries and keys are normalised"),
        ("[train]\nmixed_precision = 'fp32'\n", "the speed of fp16 and fp32, which"),
        (
            "[train]\nmixed_precision = 'fp32'\n[model]\nnum_experts = 8\n",
            "mixtures of experts in fp32",
        ),
    ],
)
def test_what_is_not_covered_is_said_plainly(fp8tune, project, text, said):
    project({"a.toml": text})
    outcome = fp8tune("estimate", "a.toml", "--gpu", "h200", "--world-size", "8")
    assert outcome.code == 0
    words = " ".join(outcome.out.split())
    assert said in words.partition("not covered: ")[2]


def test_the_grid_says_why_a_row_has_no_figures(fp8tune, project):
    project({"a.toml": f"{SEVEN_B}[distributed]\ntp = 4\n"})
    out = fp8tune("estimate", "a.toml", *H200).out
    assert set(row(out, "bf16 selective")) == {"-"}
    assert "-" not in row(out, "bf16 none")
    reason = "- not covered: what compiled blocks keep under selective AC with tensor"
    assert reason in " ".join(out.split())


def test_memory_of_fp32_is_covered(fp8tune, project):
    """Twice the bytes, but of what is fp32 all the same; the speed is not known."""
    project({"a.toml": SEVEN_B.replace("[train]", "[train]\nmixed_precision = 'fp32'")})
    said = fp8tune("estimate", "a.toml", *H200, *JSON).json
    peaks = {
        cell["precision"]: (cell["peak_gib"], cell["tokens_per_second"])
        for cell in said["grid"]
        if (cell["micro_batch"], cell["ac"]) == (8, "full")
    }
    assert list(peaks) == ["fp32", "bf16", "fp8"]
    assert 1.5 < peaks["fp32"][0] / peaks["bf16"][0] < 2
    assert peaks["fp32"][1] is None
    assert peaks["bf16"][1] < peaks["fp8"][1]


def test_the_last_stage_of_a_pipeline_is_not_covered(fp8tune, project):
    project({"a.toml": f"{SEVEN_B}[distributed]\npp = 2\n"})
    outcome = fp8tune("estimate", "a.toml", "--gpu", "h200", "--world-size", "2")
    words = " ".join(outcome.out.split())
    assert outcome.code == 0
    assert "GiB per GPU of the first stage (" in words
    assert "not covered: the last pipeline stage" in words


def test_a_gpu_of_several_kinds_is_asked_for(fp8tune, project):
    project({"a.toml": SEVEN_B})
    outcome = fp8tune("estimate", "a.toml", "--gpu", "gh200", "--world-size", "16")
    words = " ".join(outcome.out.split())
    for what in ("fit: unknown", "speed: unknown"):
        assert f"{what}: say --gpu gh200-96gb or gh200-144gb" in words
    known = ("--gpu", "gh200", "--world-size", "16", *JSON)
    said = fp8tune("estimate", "a.toml", *known).json
    assert said["gpus"] == {"fits": ["gh200-96gb"]}


def test_a_gpu_of_unknown_memory_has_at_most_what_is_sold(fp8tune, project):
    project({"a.toml": SEVEN_B})
    known = ("--gpu", "h800", "--world-size", "16", *JSON)
    said = fp8tune("estimate", "a.toml", *known).json
    assert (said["fit"], said["gpus"]) == ("unknown", {})
    fits = {
        (cell["peak_gib"] or 0) > 90: cell["fit"]
        for cell in said["grid"]
        if cell["ac"] == "full"
    }
    assert fits == {True: "out-of-memory", False: "unknown"}


def test_no_fp8_is_offered_where_the_trainer_refuses_it(fp8tune, project):
    project({"a.toml": f"{SEVEN_B}[distributed]\ntp = 4\n"})
    said = fp8tune("estimate", "a.toml", *H200, *JSON).json
    assert said["fp8_pays"] == "no"
    runs = {cell["precision"] for cell in said["grid"] if not cell["refused"]}
    assert runs == {"bf16"}


def test_gains_above_one_and_a_half_are_flagged(fp8tune, project):
    large = SEVEN_B.replace("[model]", "[model]\ndim = 16384\nn_layers = 4")
    project({"a.toml": large.replace("14336", "57344")})
    said = fp8tune("estimate", "a.toml", *H200, *JSON).json
    assert said["speed"]["fp8_gain"] > 1.5
    assert said["speed"]["fp8_gain_suspicious"]
    assert any("suspicious" in reason for reason in said["reasons"])
    text = fp8tune("estimate", "a.toml", *H200).out
    assert "! suspiciously fast" in " ".join(text.split())
    project({"b.toml": SEVEN_B})
    assert "a gain above 1.5" not in fp8tune("estimate", "b.toml", *H200).out


def test_measured_runs_correct_the_estimate(fp8tune, project):
    project({"a.toml": SEVEN_B})
    command = ("estimate", "a.toml", *H200, *JSON)
    before = fp8tune(*command).json
    assert before["memory"]["calibration"] is None
    peak, speed = before["memory"]["peak_gib"], before["speed"]["tokens_per_second"]
    typed = ("--measured", f"{1.02 * peak}", "--measured-speed", f"{0.9 * speed}")
    typed += ("--measured-torch", "2.9.1")
    after = fp8tune(*command, *typed).json
    assert after["memory"]["peak_gib"] == pytest.approx(1.02 * peak)
    assert after["speed"]["tokens_per_second"] == pytest.approx(0.9 * speed)
    assert after["memory"]["calibration"] == {
        "runs": 1,
        "factor": pytest.approx(1.02),
    }
    assert after == fp8tune(*command).json
    text = fp8tune("estimate", "a.toml", *H200).out
    assert "(times 1.020, by 1 measured run of configs like this one)" in text
    lines = (project({}) / ".fp8tune" / "calibration.jsonl").read_text().splitlines()
    assert len(lines) == 2
    assert all(json.loads(line)["versions"]["torch"] == "2.9.1" for line in lines)


def test_trials_of_a_search_correct_the_estimate(fp8tune, project):
    trial = {
        "knobs": {"train.batch_size": 4},
        "outcome": "ok",
        "tokens_per_second": 50000.0,
        "peak_gib": 60.0,
        "environment": "NVIDIA H200, torch 2.13.0",
        "grad_accum": 8,
        "extrapolated": "rank 0 of 16, without communication",
    }
    how = {"seed": 42, "warmup_steps": 8, "steps": 32, "given_warmup": 8, "free": False}
    unlike = [{**trial, "rehearsal": True}, {**trial, "stability": how}]
    lines = [trial, *unlike, {"knobs": {}, "outcome": "oom"}]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    folder = project({"a.toml": SEVEN_B, ".fp8tune/s/trials.jsonl": text})
    said = fp8tune("estimate", "a.toml", *H200, *JSON, "--study", ".fp8tune/s").json
    assert said["memory"]["calibration"]["runs"] == 1
    assert said["speed"]["calibration"] is None
    lines = (folder / ".fp8tune" / "calibration.jsonl").read_text().splitlines()
    stored, out = map(json.loads, lines)
    assert (stored["gpu"], stored["measured"]) == ("h200", 60.0)
    assert stored["versions"]["torch"] == "2.13.0"
    assert (out["quantity"], out["measured"]) == ("out-of-memory", 139.8)
    assert said["fit"] == "tight"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--measured", "50"), "without `gpu` there is no estimate: say --gpu h100"),
        (("--measured", "900", *H200), "--measured 900: more than the GPU has, 139.8"),
        (("--measured", "9", *H200), "a memory of 9.0 is too far from"),
        (("--measured-speed", "9", *H200), "a speed of 9.0 is too far from"),
        (("--measured", "0"), "0.0 is not in the range"),
        (("--measured", "x"), "'x' is not a valid float"),
        (("--study", "none"), "No such file or directory"),
        (("--study", "bad"), "trials.jsonl: line 1: no JSON"),
        (("--calibration", "bad/trials.jsonl"), "trials.jsonl:1: no measured run"),
    ],
)
def test_what_cannot_correct_it(fp8tune, project, arguments, said):
    project({"a.toml": SEVEN_B, "bad/trials.jsonl": "x\n"})
    outcome = fp8tune("estimate", "a.toml", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("gone.toml", None, "gone.toml: No such file or directory"),
        ("a.toml", "[train\n", "a.toml:1:"),
        ("a.toml", "[project]\nname = 'x'\n", "a.toml: a Python project file"),
    ],
)
def test_what_cannot_be_estimated(fp8tune, project, name, text, said):
    project({} if text is None else {name: text})
    outcome = fp8tune("estimate", name)
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_precision_that_the_trainer_does_not_have(fp8tune, project):
    project({"a.toml": '[train]\nmixed_precision = "x"\n'})
    outcome = fp8tune("estimate", "a.toml")
    said = 'fp8tune: a.toml: `train.mixed_precision = "x"` is no precision of the '
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == f"{said}trainer: bf16, fp16, fp32, fp8\n"


ONE_GPU = "configs/llama3_7b_1xh200_fp8.toml"


def row(text, name):
    (line,) = (line for line in text.splitlines() if line.startswith(name))
    return line.removeprefix(name).split()


def test_the_grid_has_the_configs_own_column(estimate):
    """Less accumulation needs less: the last column may fit where earlier do not."""
    text = estimate("--gpu", "4090", "--world-size", "8", config=ONE_GPU).out
    assert row(text, "micro-batch") == ["1", "2", "4", "8"]
    assert row(text, "accumulation") == ["8", "4", "2", "1"]
    assert row(text, "fp8  full")[-1] == "45x"
    moe = "configs/moe_9b_8xh200_bf16.toml"
    text = estimate("--gpu", "l40s", "--world-size", "8", config=moe).out
    assert row(text, "bf16 full") == ["51x", "60x", "50?"]


def test_of_columns_that_cannot_fit_one_is_shown(estimate):
    text = estimate("--gpu", "h200", "--world-size", "24", config=ONE_GPU).out
    shown = row(text, "bf16 none")
    assert [cell[-1] for cell in shown].count("x") <= 1
    assert len(row(text, "micro-batch")) == len(shown)


def test_what_would_fit_is_said_where_nothing_does(estimate):
    outcome = estimate("--gpu", "4090", "--world-size", "8", config=ONE_GPU)
    assert "none of these surely fits: set `train.batch_size = 3`" in outcome.out
    said = estimate("--gpu", "4090", "--world-size", "8", *JSON, config=ONE_GPU).json
    assert said["start"] is None
    assert said["instead"] == "set `train.batch_size = 3`"
    assert said["memory"]["usable_gib"] == pytest.approx(0.915 * 23.64)
    assert estimate(*JSON).json["instead"] is None


def test_without_a_speed_the_largest_of_the_grid_is_named(estimate):
    text = estimate("--gpu", "b200", "--world-size", "8", config=ONE_GPU).out
    words = " ".join(text.split())
    assert "largest of these that fits is fp8 (the config's), micro-batch 8" in words


def test_a_peak_of_megabytes_has_figures(estimate):
    text = estimate("--world-size", "8", config="configs/rehearsal_cpu.toml").out
    peak = text.split("memory: ")[1].split()[0]
    assert 0 < float(peak) < 0.05
    assert " 0.0," not in text.split("fit:")[0]


@pytest.mark.parametrize(
    ("gpu", "judged"), [((), False), (("--gpu", "a100"), False), (H200[:2], True)]
)
def test_figures_that_no_gpu_judges_are_said_to_be(fp8tune, project, gpu, judged):
    project({"a.toml": SEVEN_B})
    text = fp8tune("estimate", "a.toml", "--world-size", "8", *gpu).out
    assert ("unmarked: not judged" not in text) is judged


VLM = """[model]
dim = 256
n_layers = 4
n_heads = 4
n_kv_heads = 4
vocab_size = 50257
max_seq_len = 576
[train]
batch_size = 2
seq_len = 576
compile_model = false
[vision_encoder]
type = "{encoder}"
feature_dim = {features}
num_tokens = {tokens}
[vlm]
[data]
hf_dataset_name = "sayakpaul/coco-30-val-2014"
tokenizer_path = "gpt2"
"""


@pytest.mark.parametrize("gpu", [(), H200[:2]])
def test_what_is_unknown_has_its_reason(fp8tune, project, gpu):
    project({"a.toml": VLM.format(encoder="siglip2", features=0, tokens=0)})
    out = fp8tune("estimate", "a.toml", *gpu).out
    assert "speed: unknown: not covered: vision-language models" in out
    assert "memory: unknown: not covered: " in out


def test_why_a_precision_cannot_run_is_what_keeps_it_from_running(fp8tune, project):
    """Too few samples fail in either precision; only FP8 has an unaligned head."""
    project({"a.toml": VLM.format(encoder="random", features=384, tokens=64)})
    out = fp8tune("estimate", "a.toml", "--gpu", "h200", "--world-size", "64").out
    assert "this run fails, whatever it needs: 30 samples over 64 ranks" in out
    assert "fp8 cannot run: `model.vocab_size = 50257` is not a multiple" in out


@pytest.mark.parametrize(
    ("gpu", "fit", "speed"),
    [
        ("", "say --gpu h100", "say --gpu h100"),
        ("a100", "say --gpu a100-40gb or a100-80gb", "not covered: other GPUs than"),
        ("gh200", "say --gpu gh200-96gb or gh200-144gb", "say --gpu gh200-96gb or "),
        ("h800", "not covered: what torch sees of this", None),
    ],
)
def test_a_gpu_is_asked_for_where_it_would_tell(fp8tune, project, gpu, fit, speed):
    project({"a.toml": SEVEN_B})
    target = ("--world-size", "8", *(("--gpu", gpu) if gpu else ()))
    out = " ".join(fp8tune("estimate", "a.toml", *target).out.split())
    assert f"fit: unknown: {fit}" in out
    assert (f"speed: unknown: {speed}" in out) is (speed is not None)


@pytest.mark.parametrize(("batch", "accum"), [(5, 1), (7, 3), (6, 2), (8, 1)])
def test_a_smaller_micro_batch_keeps_the_sequences_of_a_step(
    fp8tune, project, batch, accum
):
    text = SEVEN_B.replace("batch_size = 8", f"batch_size = {batch}")
    project({"a.toml": text.replace("steps = 4", f"steps = {accum}")})
    savings = fp8tune("estimate", "a.toml", *H200, *JSON).json["savings"]
    changes = [s["change"] for s in savings if s["change"].startswith("micro-batch")]
    for words in changes:
        half, accumulated = (int(word) for word in words.split() if word.isdigit())
        assert half * accumulated == batch * accum
    assert changes or accum == 1
