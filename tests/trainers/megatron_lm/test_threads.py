"""Reports of users: the flags that they gave, rebuilt, get the finding.

Where no rule can know, ``fp8tune estimate`` or ``verify`` answers instead: how much FP8
gains (Megatron-LM#396, #860, ms-swift#6980) and needs (#1236, ms-swift#9371).
"""

from tests.each import each
from tests.support.verdicts import lint

MODEL = """\
#!/bin/bash
GPT_ARGS="
    --num-layers 32
    --hidden-size 4096
    --num-attention-heads 32
    --seq-length 4096
    --max-position-embeddings 4096
    --micro-batch-size 1
    --global-batch-size 128
    --train-iters 1000
    --lr 0.00015
"
torchrun --nproc_per_node 8 pretrain_gpt.py $GPT_ARGS """


def rules_of(text, name="run.sh"):
    report = lint(name, text, "")
    return [found.rule for found in report.diagnostics]


@each(
    ("flags", "rules"),
    [
        ("--bf16 --fp8-format e5m2", ["value-not-allowed"]),
        ("--bf16 --fp8-format hybrid # FP8", []),
        ("--bf16 --fp8-format hybrid more", ["wrong-type"]),
        ("--bf16 --rampup-batch-size 32 32 1000 --recompute-modules moe mlp", []),
        ("--bf16 --fp8-format hybrid more $MORE", ["unresolved-flags"]),
        ("--bf16 --hidden-size 4096.0", ["duplicate-key", "wrong-type"]),
    ],
)
def test_flags(flags, rules):
    found = rules_of(MODEL + flags + "\n")
    assert [name[: len(rule)] for name, rule in zip(found, rules, strict=True)] == rules


def test_the_gpu_is_that_of_the_sbatch_lines():
    """The recipe mxfp8 needs Blackwell; a comment wins over the script."""
    flags = "--bf16 --fp8-format e4m3 --fp8-recipe mxfp8\n"
    head, body = "#!/bin/bash\n", MODEL.removeprefix("#!/bin/bash\n") + flags
    wrong = ["te-recipe-on-this-gpu"]
    for line in ("--gpus-per-node=h100:8", "--gres=gpu:h200:8", "--constraint=h100"):
        assert rules_of(f"{head}#SBATCH {line}\n{body}") == wrong
    assert rules_of(f"{head}#SBATCH --gres=gpu:8\n{body}") == []
    assert rules_of(f"{head}#SBATCH --gres=gpu:b200:8\n{body}") == []
    other = "#SBATCH --gres=gpu:h100:8\n# fp8tune: gpu=b200\n"
    assert rules_of(head + other + body) == []


def test_what_may_be_among_unknown_words_is_open():
    assert rules_of(MODEL + "--fp8-format hybrid $MORE\n") == ["unresolved-flags"]
    assert rules_of(MODEL.replace("32\n", "32 $MORE\n", 1) + "--bf16\n") == [
        "unresolved-flags"
    ]


def test_another_program_may_have_flags_of_its_own():
    mine = MODEL.replace("pretrain_gpt.py", "pretrain_mine.py")
    assert rules_of(mine + "--bf16 --my-own-flag 1 --optimizer cpu-adam\n") == []
    assert rules_of("torchrun train.py --bf16 --epochs 3\n") == []


def test_a_script_that_starts_another_trainer(fp8tune, project):
    """Its flags are not Megatron-LM's, though some are called so."""
    launcher = "accelerate launch --config_file c.yaml"
    text = MODEL.replace("torchrun --nproc_per_node 8", f"/venv/bin/{launcher}")
    project({"run.sh": text})
    said = fp8tune("lint", "run.sh")
    assert said.code == 2
    assert "run.sh:13: no c.yaml in" in said.err
    assert fp8tune("lint", "run.sh", "--trainer", "megatron_lm").code == 0


def test_a_fix_that_saves_memory_is_offered_though_more_is_needed(project, fp8tune):
    """Megatron-LM#883 with a model that fits neither in fp32 nor in bf16."""
    large = MODEL.replace("--num-layers 32", "--num-layers 64 --swiglu")
    large = large.replace("4096", "8192")
    flags = "--use-distributed-optimizer --fp8-format hybrid --vocab-size 128256"
    project({"run.sh": large + flags})
    said = fp8tune("lint", "run.sh", "--gpu", "h100", "--output-format", "json")
    assert {
        found["rule"]: bool(found["fix"]) for found in said.json["diagnostics"]
    } == {
        "out-of-memory": False,
        "fp8-without-bf16": True,
    }
