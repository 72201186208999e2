"""JSON in whole runs: other files get no word, comments silence, fixes keep bytes."""

CONFIG = """# fp8tune: world-size=8
{
  "train_micro_batch_size_per_gpu": 2,
  "fp8": {"enabled": true}, # fp8tune: ignore[fp8-table-of-deepspeed] -- of our launcher
  "gradient_accumulation_step": 4,
  "bf16": {"enabled": true}
}
"""


def test_other_json_gets_no_word(fp8tune, tmp_path):
    (tmp_path / "package.json").write_text('{"name": "x", "scripts": {}}')
    (tmp_path / "broken.json").write_text('{"a": ')
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "letters.json").write_text("a" * 1_000_000)  # hours, if searched twice
    found = fp8tune("lint", str(tmp_path))
    assert found.code == 0
    assert "json" not in found.out


def test_a_named_file_that_is_no_config(fp8tune, tmp_path):
    (tmp_path / "package.json").write_text('{"name": "x", "scripts": {}}')
    found = fp8tune("lint", str(tmp_path / "package.json"))
    assert found.code == 2


def test_comments_silence_and_fixes_keep_all_other_bytes(fp8tune, tmp_path):
    path = tmp_path / "ds.json"
    path.write_text(CONFIG)
    found = fp8tune("lint", str(path), "--output-format", "concise")
    assert "fp8-table-of-deepspeed" not in found.out
    assert ":5:3: warning[unknown-key-ignored]" in found.out
    fp8tune("lint", str(path), "--fix", "--unsafe-fixes")
    fixed = CONFIG.replace('accumulation_step"', 'accumulation_steps"')
    assert path.read_text() == fixed
