"""Jobs of several files: how they find each other, and where findings stand."""

import pytest

LAUNCH = """\
distributed_type: FSDP
mixed_precision: fp8
num_processes: 8
fp8_config:
  backend: AO
  pad_inner_dimension: true
fsdp_config:
  fsdp_version: 2
  fsdp_cpu_ram_efficient_loading: false
"""
TRAINING = """\
model_name_or_path: meta-llama/Llama-3.1-8B
dataset_name: trl-lib/Capybara
per_device_train_batch_size: 4
bf16: true
"""
LAUNCH_DEEPSPEED = """\
distributed_type: DEEPSPEED
num_processes: 8
deepspeed_config:
  deepspeed_config_file: {}
"""
OFF, UNREAD = "fp8-backend-off-by-arguments", "launch-key-unread"
TRAINER = ("--trainer", "accelerate==1.15.0")


@pytest.fixture
def findings(project, fp8tune):
    """What lint says of files: path, line and rule of each finding."""

    def lint(files, *arguments):
        project(files)
        said = fp8tune("lint", "--output-format", "json", "-q", *TRAINER, *arguments)
        found = said.json["diagnostics"]
        return said.err or [(one["path"], one["line"], one["rule"]) for one in found]

    return lint


BOTH = {"run/launch.yaml": LAUNCH, "sft.yaml": TRAINING}


@pytest.mark.parametrize(
    ("comment", "arguments"),
    [
        pytest.param("", ["--with", "sft.yaml"], id="option"),
        pytest.param("", ["sft.yaml"], id="named"),
        pytest.param("# fp8tune: with=../sft.yaml\n", [], id="comment"),
    ],
)
def test_a_finding_needs_both_files(findings, comment, arguments):
    files = {**BOTH, "run/launch.yaml": comment + LAUNCH}
    above = comment.count("\n")
    assert findings(files, "run/launch.yaml", *arguments) == [
        ("run/launch.yaml", 5 + above, OFF),
        ("run/launch.yaml", 6 + above, UNREAD),
    ]


def test_from_either_file_it_is_one_finding(findings):
    comment = "# fp8tune: with=run/launch.yaml\n"
    files = {
        "run/launch.yaml": "# fp8tune: with=../sft.yaml\n" + LAUNCH,
        "sft.yaml": comment + TRAINING,
    }
    expected = [("run/launch.yaml", 6, OFF), ("run/launch.yaml", 7, UNREAD)]
    assert findings(files, "sft.yaml") == expected
    assert findings(files, "run/launch.yaml", "sft.yaml") == expected


def test_its_label_in_the_other_file(project, fp8tune):
    project(BOTH)
    arguments = ("run/launch.yaml", "--with", "sft.yaml", *TRAINER)
    said = fp8tune("lint", "--output-format", "json", "--select", OFF, *arguments)
    (found,) = said.json["diagnostics"]
    places = [(x.get("path"), x["line"], x["key"]) for x in found["labels"]]
    assert places == [
        (None, 5, "fp8_config.backend"),
        ("sft.yaml", 4, "training.bf16"),
    ]
    shown = fp8tune("lint", "--select", OFF, *arguments)
    assert "--> sft.yaml:4:7\n4 | bf16: true\n" in shown.out


def test_what_is_fixed_in_the_other_file_is_no_finding(findings):
    gather = "  enable_fsdp_float8_all_gather: false\n"
    launch = LAUNCH.replace("FSDP\n", '"NO"\n', 1).partition("  pad_")[0]
    files = {"launch.yaml": launch, "conf.yaml": TRAINING.replace("true", "false")}
    select = ("--select", "fp8-weights-not-saved")
    assert findings(files, ".", *select) == [("launch.yaml", 4, select[1])]
    assert findings(files, ".", *select, "--fix") == []
    fixed = {**files, "launch.yaml": launch + gather}
    assert findings(fixed, ".", *select) == []


def test_a_deepspeed_file_is_found_from_the_folders_above(project, fp8tune):
    files = {
        "runs/a/launch.yaml": LAUNCH_DEEPSPEED.format("ds/zero.json"),
        "ds/zero.json": '{"train_batch_size": 8, "fp16": {"enabled": true}, '
        '"zero_optimization": {"stage": 2}}\n',
    }
    root = project(files)
    assert fp8tune("lint", "runs/a/launch.yaml").out.startswith(
        "no findings in 2 files\n"
    )
    said = 'runs/a/launch.yaml:4:26: note[named-file-not-checked] `"ds/zero.json"` '
    (root / "ds/zero.json").write_text('{"train_batch_size": 8,,}')
    ended = fp8tune("lint", "runs/a/launch.yaml", "--output-format", "concise")
    assert ended.out.startswith(f"{said}cannot be read (a key is missing here, ")
    (root / "ds/zero.json").unlink()
    ended = fp8tune("lint", "runs/a/launch.yaml", "--output-format", "concise")
    assert ended.code == 0
    assert ended.out.startswith(f"{said}is not there, so it is not checked")


def test_a_deepspeed_file_that_json_refuses(project, fp8tune):
    """HfDeepSpeedConfig of Accelerate reads it with ``json``, DeepSpeed with hjson."""
    files = {
        "launch.yaml": LAUNCH_DEEPSPEED.format("z.json"),
        "z.json": '{ // ZeRO 2\n  "zero_optimization": {"stage": 2},\n}\n',
    }
    project(files)
    said = fp8tune("lint", "launch.yaml", "--output-format", "concise")
    assert said.out.startswith("z.json:1:3: error[invalid-json] not valid JSON: ")
    assert said.code == 1
    alone = fp8tune("lint", "z.json", "--trainer", "deepspeed")
    assert "invalid-json" not in alone.out


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nosuch.yaml", "No such file or directory"),
        ("a.toml", "Accelerate reads no TOML"),
        ("other.yaml", "its keys are of the same kind as those of run/launch.yaml"),
    ],
)
def test_what_is_no_part_of_the_job(findings, name, reason):
    files = {**BOTH, "a.toml": "", "other.yaml": LAUNCH}
    said = findings(files, "run/launch.yaml", "--with", name)
    assert said == f"fp8tune: run/launch.yaml: --with {name}: {reason}\n"
    comment = f"# fp8tune: with=../{name}\n"
    files["run/launch.yaml"] = comment + LAUNCH
    expected = [("run/launch.yaml", 1, "bad-directive"), ("run/launch.yaml", 7, UNREAD)]
    assert findings(files, "run/launch.yaml") == expected


def test_training_arguments_are_no_other_trainers_config(project, fp8tune):
    """A file of TRL has many keys that LLaMA-Factory and Axolotl know too."""
    more = (
        "learning_rate: 2.0e-5\nnum_train_epochs: 1\npacking: true\noutput_dir: out\n"
    )
    project(
        {
            "launch.yaml": "# fp8tune: with=sft.yaml\n" + LAUNCH,
            "sft.yaml": TRAINING + more,
        }
    )
    said = fp8tune("lint", "--output-format", "json", ".")
    rules = {(d["path"], d["rule"]) for d in said.json["diagnostics"]}
    assert rules == {("launch.yaml", OFF), ("launch.yaml", UNREAD)}


AXOLOTL = """\
base_model: NousResearch/Meta-Llama-3-8B
datasets: [{path: tatsu-lab/alpaca, type: alpaca}]
sequence_len: 4096
micro_batch_size: 1
gradient_accumulation_steps: 1
learning_rate: 0.0002
"""
STRANGER = AXOLOTL + "fp8_backend: te\n"


@pytest.mark.parametrize(
    ("comment", "arguments"),
    [
        pytest.param("", ["--with", "ax.yaml"], id="option"),
        pytest.param("# fp8tune: with=ax.yaml\n", [], id="comment"),
        pytest.param("# fp8tune: with=ax.yaml\n", ["."], id="folder"),
    ],
)
def test_a_config_of_another_trainer_is_checked_as_one(
    comment, arguments, project, fp8tune
):
    project({"launch.yaml": comment + LAUNCH, "ax.yaml": STRANGER})
    paths = ["launch.yaml"] * ("." not in arguments)
    said = fp8tune("lint", *paths, *arguments, "--output-format", "concise")
    rules = [line.partition("[")[2].partition("]")[0] for line in said.out.splitlines()]
    assert sorted(rules) == [UNREAD, "unknown-key-ignored"]
    assert (
        "\nax.yaml is a config of Axolotl and is checked as one, "
        "not together with launch.yaml\n"
    ) in said.err
    forced = fp8tune("lint", *paths, *arguments, *TRAINER, "--output-format", "concise")
    assert "unknown-key-ignored" not in forced.out


TRAIN = """\
model_name_or_path: Qwen/Qwen2.5-7B
stage: sft
do_train: true
finetuning_type: full
dataset: alpaca_en_demo
cutoff_len: 4096
learning_rate: 5e-5
bf16: true
"""
GATHER = "fp8_enable_fsdp_float8_all_gather: true\n"
SCRIPT = "accelerate launch --config_file launch.yaml src/train.py train.yaml"


@pytest.mark.parametrize(
    ("above", "arguments", "turned_off"),
    [
        pytest.param(("", ""), "launch.yaml --with train.yaml", True, id="launch"),
        pytest.param(("with=train.yaml", ""), "launch.yaml", True, id="comment"),
        pytest.param(("with=train.yaml", "with=launch.yaml"), ".", True, id="both"),
        pytest.param(("", ""), "--script run.sh", True, id="script"),
        pytest.param(("", ""), "--script off.sh", False, id="argument"),
        pytest.param(
            ("", "with=launch.yaml"), "train.yaml -- bf16=false", False, id="arguments"
        ),
    ],
)
def test_llama_factory_is_one_job_with_its_launch_file(
    above, arguments, turned_off, project, fp8tune
):
    """Each file is checked as its own trainer's too, and each finding stands once."""
    launch, train = (f"# fp8tune: {word}\n" if word else "#\n" for word in above)
    scripts = {"run.sh": SCRIPT, "off.sh": f"{SCRIPT} bf16=false torch_compile=true"}
    project(
        {
            "launch.yaml": launch + LAUNCH,
            "train.yaml": train + TRAIN + GATHER,
            **scripts,
        }
    )
    options = ("--output-format", "json", "-q", "--ignore", "fp8-without-compile")
    said = fp8tune("lint", *options, *arguments.split())
    found = said.json["diagnostics"]
    assert sorted((each["path"], each["line"], each["rule"]) for each in found) == [
        *[("launch.yaml", 6, OFF)] * turned_off,
        ("launch.yaml", 7, UNREAD),
        ("train.yaml", 10, "fp8-all-gather-not-read"),
    ]


@pytest.mark.parametrize(
    ("precision", "rules"),
    [("bf16", {"fp8-with-transformers-5"}), ("fp8", set())],
)
@pytest.mark.parametrize("first", ["launch.yaml", "train.yaml"])
def test_fp8_of_llama_factory_depends_on_the_launch_file(
    precision, rules, first, project, fp8tune
):
    """With TE, the linears are in FP8 by the launch file (llamafactory_verdicts.md)."""
    launch = (
        f"distributed_type: MULTI_GPU\nmixed_precision: {precision}\n"
        "num_processes: 8\nfp8_config:\n  backend: TE\n"
    )
    pins, train = "transformers==5.6.0\n", f"{TRAIN}fp8: true\n"
    project({"launch.yaml": launch, "train.yaml": train, "requirements.txt": pins})
    [second] = {"launch.yaml", "train.yaml"} - {first}
    said = fp8tune("lint", first, "--with", second, "--output-format", "json", "-q")
    found = said.json["diagnostics"]
    mine = {each["rule"] for each in found if each["path"] == "train.yaml"}
    assert mine == rules


def test_no_estimate_of_llama_factory_and_a_launch_file(project, fp8tune):
    """A comment that names the other file changes nothing of what is estimated."""
    comment = "# fp8tune: with=train.yaml\n"
    project({"launch.yaml": "#\n" + LAUNCH, "train.yaml": TRAIN})
    said = fp8tune("estimate", "train.yaml", "--with", "launch.yaml")
    reason = "a config of Accelerate, which is read alone"
    assert said.err == f"fp8tune: --with launch.yaml: {reason}\n"
    alone = fp8tune("estimate", "launch.yaml", "--gpu", "h100")
    project({"launch.yaml": comment + LAUNCH})
    assert fp8tune("estimate", "launch.yaml", "--gpu", "h100") == alone


def test_an_option_for_a_folder_is_for_jobs_of_several_files(findings):
    """Files of other trainers are checked as without it, and the file itself."""
    files = {
        "a/launch.yaml": LAUNCH,
        "a/sft.yaml": TRAINING,
        "a/lf.yaml": TRAIN.replace("sft", "dpo") + "fp8: true\n",
    }
    arguments = ("--with", "a/sft.yaml", "--trainer", "")
    assert findings(files, "a", *arguments) == [
        ("a/launch.yaml", 5, OFF),
        ("a/launch.yaml", 6, UNREAD),
        ("a/lf.yaml", 9, "fp8-in-another-stage"),
    ]


@pytest.mark.parametrize(
    "words", [("estimate",), ("explain", "memory.peak_gib")], ids=lambda one: one[0]
)
def test_other_commands_take_the_other_file_too(words, project, fp8tune):
    comment = "# fp8tune: with=../sft.yaml\n"
    project({**BOTH, "sft.yaml": TRAINING.replace("true", "false")})
    project({"run/said.yaml": comment + LAUNCH})
    alone, joined, said = (
        fp8tune(*words, *arguments, "--gpu", "h100", *TRAINER).out
        for arguments in (
            ("run/launch.yaml",),
            ("run/launch.yaml", "--with", "sft.yaml"),
            ("run/said.yaml",),
        )
    )
    assert joined == said.replace("said.yaml", "launch.yaml") != alone


AXOLOTL_AND_FILE = AXOLOTL + "deepspeed: ds.json\n"
DEEPSPEED = LAUNCH_DEEPSPEED.format("ds.json")


@pytest.mark.parametrize(
    "config", [AXOLOTL_AND_FILE, f"{TRAIN}deepspeed: ds.json\n", DEEPSPEED]
)
def test_a_deepspeed_file_is_checked_where_a_config_names_it(config, project, fp8tune):
    """Its findings stand in it once, whether or not it is named too."""
    text = '{"bf16": {"enable": true},\n "fp8": {"enabled": true},\n'
    text += ' "zero_optimization": {"stage": 2},\n'
    text += ' "train_micro_batch_size_per_gpu": "auto"}\n'
    project({"run/a.yaml": config, "ds.json": text})
    for files in (["run/a.yaml"], ["run/a.yaml", "ds.json"]):
        found = fp8tune("lint", *files, "--output-format", "json").json
        assert [
            (one["path"], one["line"], one["rule"])
            for one in found["diagnostics"]
            if one["category"] != "hygiene"
        ] == [
            ("ds.json", 1, "unknown-key"),
            ("ds.json", 2, "fp8-table-of-deepspeed"),
        ]
