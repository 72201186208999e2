"""What is shown of a place, over stdio."""

from lsprotocol import types

from tests.lsp.test_server import CONFIG, TP
from tests.support.language_client import in_session


def test_a_place_shows_rules_the_key_and_the_memory(tmp_path):
    config = tmp_path / "train.toml"
    config.write_text(CONFIG)

    async def talk(client):
        await client.open(config)
        found = [await client.hover(config, at) for at in ("tp =", "4\n", "\n[model]")]
        offered = await client.complete(config, "\n[distributed]")
        return found, offered

    (key, value, nothing), offered = in_session(tmp_path, talk)
    assert nothing is None
    assert key.range == types.Range(types.Position(13, 0), types.Position(13, 2))
    about, memory = key.contents.value.split("\n\n---\n\n")
    assert about == (
        "**`distributed.tp`** (KempnerForge)\n\nTensor-parallel degree.\n\n"
        "whole number; at least 1; default: 1"
    )
    assert "\nthis cannot run: FP8 does not work with tensor parallelism" in memory
    rule, why, evidence, same, _ = value.contents.value.split("\n\n---\n\n")
    assert rule.startswith(f"**{TP}** (FP8101, rejected: ")
    assert (why != "", "https://" in evidence, same) == (True, True, about)
    assert {"batch_size", "seq_len"} <= {*offered}
    assert "compile_model" not in offered  # it is there
