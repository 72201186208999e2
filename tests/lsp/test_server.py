"""The language server, by transcripts of a client over stdio."""

import sys

import pytest
from lsprotocol import types

from tests.support.language_client import in_session

TP = "fp8-with-tensor-parallel"
ALONE = "tensor-parallel-from-scratch"
NO_COMPILE = "fp8-without-compile"
CONFIG = """\
# fp8tune: gpu=h100 world-size=16
[model]
dim = 2048
n_layers = 8
n_heads = 16
n_kv_heads = 16

[train]
mixed_precision = "fp8"
compile_model = true
activation_checkpointing = "none"

[distributed]
tp = 4
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "train.toml"
    path.write_text(CONFIG)
    return path


def test_a_file_is_checked_from_opening_to_closing(config, tmp_path):
    async def talk(client):
        seen = [await client.open(config)]
        (finding,) = client.diagnostics[config.as_uri()]
        seen.append(await client.edit(config, "tp = 4", "tp = 1"))
        seen.append(await client.edit(config, "tp = 1", "tp = 4"))
        client.close(config)
        await client.until(lambda: not client.diagnostics[config.as_uri()])
        return seen, finding

    seen, finding = in_session(tmp_path, talk)
    assert seen == [[TP], [], [TP]]
    place = types.Range(types.Position(8, 18), types.Position(8, 23))
    assert finding == types.Diagnostic(
        types.Range(types.Position(13, 5), types.Position(13, 6)),
        "FP8 does not work with tensor parallelism in this trainer "
        "(`distributed.tp = 4`)\nhelp: set `distributed.tp = 1` and shard with FSDP "
        "only, or train in bf16",
        types.DiagnosticSeverity.Error,
        TP,
        finding.code_description,
        "fp8tune",
        related_information=(
            types.DiagnosticRelatedInformation(
                types.Location(config.as_uri(), place),
                "converts every linear to Float8Linear",
            ),
        ),
    )
    assert finding.code_description.href.startswith("https://")


def test_a_file_whose_name_is_encoded_in_its_address(tmp_path):
    config = tmp_path / "a b+\N{LATIN SMALL LETTER E WITH ACUTE}" / "lr=1e-4%20.toml"
    config.parent.mkdir()
    config.write_text(CONFIG)

    async def talk(client):
        seen = [await client.open(config), await client.edit(config, "tp = 4", "tp = ")]
        seen.append(await client.edit(config, "tp = ", "tp = 4"))
        fix = (await client.actions(config, "4\n"))[0]
        seen.append(await client.act(config, fix))
        assert (await client.hover(config, "tp =")).contents.value
        assert "pp" in await client.complete(config, "tp =")
        client.close(config)
        await client.until(lambda: not client.diagnostics[config.as_uri()])
        return seen, [*client.diagnostics]

    fixed = CONFIG.replace("tp = 4", "tp = 1")
    seen = [[TP], ["invalid-toml"], [TP], fixed], [config.as_uri()]
    assert in_session(tmp_path, talk) == seen


def test_fixes_and_ignore_comments_are_offered(config, tmp_path):
    text = CONFIG.replace('"none"', '"None"')

    async def talk(client):
        await client.open(config, text)
        fix, ignore, every = await client.actions(config, '"None"')
        unsafe, _, _ = await client.actions(config, "4\n")
        assert await client.actions(config, "dim") == [every]
        assert await client.actions(config, '"None"', ["source.fixAll"]) == [every]
        assert await client.actions(config, '"None"', ["refactor"]) == []
        titles = [action.title for action in (fix, ignore, every, unsafe)]
        assert (fix.is_preferred, unsafe.is_preferred) == (True, False)
        return titles, [
            await client.act(config, action) for action in (fix, ignore, every, unsafe)
        ]

    titles, texts = in_session(tmp_path, talk)
    assert titles == [
        'fp8tune: write "none"',
        "fp8tune: ignore `value-not-allowed` here",
        "fp8tune: fix all, safely",
        "fp8tune: set `distributed.tp = 1` (changes the run: FSDP uses the GPUs of "
        "tensor parallelism: 4 x more sequences per step, and whole layers on each "
        "GPU)",
    ]
    line = 'activation_checkpointing = "None"\n'
    assert texts == [
        CONFIG,
        text.replace(line, f"# fp8tune: ignore[value-not-allowed]\n{line}"),
        CONFIG,
        text.replace("tp = 4", "tp = 1"),
    ]


def test_text_that_does_not_parse_is_marked_where_it_ends_to(config, tmp_path):
    async def talk(client):
        await client.open(config)
        invalid = await client.edit(config, "tp = 4", "tp = ")
        (place,) = [each.range for each in client.diagnostics[config.as_uri()]]
        return invalid, place, await client.edit(config, "tp = ", "tp = 4")

    place = types.Range(types.Position(13, 5), types.Position(14, 0))
    assert in_session(tmp_path, talk) == (["invalid-toml"], place, [TP])


def test_columns_count_in_the_units_of_the_client(config, tmp_path):
    smile, line_separator = "\N{SLIGHTLY SMILING FACE}", "\u2028"
    odd = f'[checkpoint]\r\ndir = "{smile}{line_separator}"\r\n'
    inline = f'distributed = {{ pp_schedule = "{smile}", tp = 4 }}'
    text = odd + CONFIG.replace("[distributed]\ntp = 4\n", "")
    text = text.replace("\n# fp8tune", f"\n{inline}\n# fp8tune")
    text = f"{inline}\r\n" + text.replace(f"{inline}\n", "")

    async def talk(client):
        found = await client.open(config, text)
        by_rule = dict(zip(found, client.diagnostics[config.as_uri()], strict=True))
        fix = next(a for a in await client.actions(config, "4 }") if a.edit)
        return by_rule[TP].range, await client.act(config, fix)

    place, fixed = in_session(tmp_path, talk)
    column = inline.index("4 }") + 1
    assert place == types.Range(
        types.Position(0, column), types.Position(0, column + 1)
    )
    assert fixed == text.replace("tp = 4", "tp = 1")


def test_what_is_no_train_config_is_left_alone(tmp_path):
    files = {
        "pyproject.toml": '[project]\nname = "x"\n',
        "other.yaml": "services:\n  web: {image: nginx}\n",
        "package.json": '{"name": "x"}',
        "broken.json": '{"name": ',
        "run.sh": "echo hello\n",
        "notes.txt": "words and words",
    }

    async def talk(client):
        for name, text in files.items():
            (tmp_path / name).write_text(text)
            assert await client.open(tmp_path / name) == []
        assert (client.shown, client.logged) == ([], [])

    in_session(tmp_path, talk)


FORMATS = {
    "axolotl.yaml": (
        "base_model: meta-llama/Llama-3.1-8B\nfp8: true\nbf16: true\n"
        "datasets: [{path: x, type: alpaca}]\nmicro_batch_size: 1\n"
        "gradient_accumulation_steps: 1\nlearning_rate: 1e-4\n",
        ["fp8-without-compile"],
    ),
    "deepspeed.json": (
        '{"zero_optimization": {"stage": 7}, "train_batch_size": 8}',
        ["value-not-allowed"],
    ),
    "megatron.sh": (
        "torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 32 --lr 1e-4 \\\n"
        "  --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 \\\n"
        "  --max-position-embeddings 4096 --micro-batch-size 1 --train-iters 9 \\\n"
        "  --fp8-formt hybrid --bf16\n",
        ["unknown-key"],
    ),
}


def test_every_format_is_checked(tmp_path):
    async def talk(client):
        found = {}
        for name, (text, _) in FORMATS.items():
            (tmp_path / name).write_text(text)
            found[name] = await client.open(tmp_path / name)
        return found

    expected = {name: rules for name, (_, rules) in FORMATS.items()}
    assert in_session(tmp_path, talk) == expected


def test_a_script_shows_what_its_command_line_does_to_its_config(config, tmp_path):
    config.write_text(CONFIG.replace("tp = 4", "tp = 1"))
    script = tmp_path / "train.sbatch"
    script.write_text(
        "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=8 --gres=gpu:h100:8\n"
        "srun python scripts/train.py train.toml \\\n  --distributed.tp=4\n"
    )

    async def talk(client):
        found = await client.open(script)
        (finding,) = client.diagnostics[script.as_uri()]
        await client.open(config)
        client.change(config, '"fp8"', '"bf16"')  # on which the script's check depends
        await client.until(lambda: client.rules(script) == [ALONE])
        return found, finding

    found, finding = in_session(tmp_path, talk)
    assert found == [TP]
    assert finding.range == types.Range(types.Position(3, 2), types.Position(3, 20))
    (converts,) = finding.related_information
    assert converts.location == types.Location(
        config.as_uri(), types.Range(types.Position(8, 18), types.Position(8, 23))
    )


def test_a_long_file_and_a_burst_of_edits(config, tmp_path):
    text = CONFIG + "".join(f"# line {number}\n" for number in range(3000))

    async def talk(client):
        await client.open(config, text)
        count = len(client.published)
        for number in range(50):
            client.change(config, "tp = ", f"tp = {number % 7 + 1}")
            client.change(config, f"tp = {number % 7 + 1}", "tp = ")
        assert await client.answer(config) == [TP]
        return len(client.published) - count

    assert in_session(tmp_path, talk) < 25


def test_other_files_of_the_job_count_as_they_are_in_the_editor(tmp_path):
    launch, arguments = tmp_path / "launch.yaml", tmp_path / "sft.yaml"
    launch.write_text(
        "distributed_type: FSDP\nmixed_precision: fp8\nnum_processes: 8\n"
        "fsdp_config:\n  fsdp_version: 2\n  fsdp_cpu_ram_efficient_loading: false\n"
        "  fsdp_state_dict_type: SHARDED_STATE_DICT\nfp8_config:\n  backend: AO\n"
    )
    arguments.write_text("bf16: false\ntorch_compile: true\nmax_length: 2048\n")

    async def talk(client):
        seen = [await client.open(launch), await client.open(arguments)]
        client.change(arguments, "bf16: false", "bf16: true")
        await client.until(lambda: client.rules(launch))
        seen.append(client.rules(launch))
        client.close(arguments)
        await client.until(lambda: not client.rules(launch))
        return seen

    assert in_session(tmp_path, talk) == [[], [], ["fp8-backend-off-by-arguments"]]


def test_settings_are_read_again_when_they_are_saved(config, tmp_path):
    project = tmp_path / "pyproject.toml"
    project.write_text("[tool.fp8tune]\n")

    async def talk(client):
        seen, again = [await client.open(config)], (config.as_uri(), 1)
        await client.open(project)
        for settings in (
            f'ignore = ["{TP}"]',
            "gpus = 1",
            f'exclude = ["{config.name}"]',
        ):
            await client.edit(
                project, client.text(project), f"[tool.fp8tune]\n{settings}\n"
            )
            count = len(client.published)
            client.save(project)
            await client.until(lambda count=count: again in client.published[count:])
            seen.append([each.message for each in client.diagnostics[config.as_uri()]])
        return seen, client.shown, client.registered

    seen, shown, registered = in_session(tmp_path, talk)
    problem = f"{project}: [tool.fp8tune] has no setting `gpus`; did you mean `gpu`?"
    assert seen == [[TP], [], [f"not checked: {problem}"], []]
    assert shown == [f"fp8tune: {problem}"]
    assert registered == ["workspace/didChangeWatchedFiles"]


def test_a_rule_that_crashes_is_logged_and_the_others_are_shown(config, tmp_path):
    patched = (
        "from fp8tune.lint import engine\n"
        "from fp8tune.lsp.server import make_server\n"
        "origin = engine._Case._origin\n"
        "def raises(case, rule):\n"
        f"    if rule.name == {TP!r}: raise OverflowError('too large')\n"
        "    return origin(case, rule)\n"
        "engine._Case._origin = raises\n"
        "from fp8tune.lsp import hover\n"
        "hover.of_memory = None\n"
        "make_server().start_io()\n"
    )

    async def talk(client):
        text = CONFIG.replace("compile_model = true", "compile_model = false")
        found = await client.open(config, text)
        assert await client.hover(config, "tp") is None
        await client.until(lambda: len(client.logged) > 1)
        return found, client.logged, client.shown

    found, logged, shown = in_session(tmp_path, talk, sys.executable, "-c", patched)
    assert (found, shown) == ([NO_COMPILE], [])
    line, of_hover = logged
    assert of_hover.startswith("TypeError in fp8tune.lsp.checks:")
    assert line.startswith(f"train.toml: OverflowError in rule {TP}, ")
    assert line.endswith("a bug in fp8tune; please report this line with the file")
