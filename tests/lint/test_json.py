"""JSON in whole runs: comments silence, and fixes keep bytes."""

CONFIG = """# fp8tune: world-size=8
{
  "train_micro_batch_size_per_gpu": 2,
  "fp8": {"enabled": true}, # fp8tune: ignore[fp8-table-of-deepspeed] -- of our launcher
  "gradient_accumulation_step": 4,
  "bf16": {"enabled": true}
}
"""


def test_comments_silence_and_fixes_keep_all_other_bytes(fp8tune, tmp_path):
    path = tmp_path / "ds.json"
    path.write_text(CONFIG)
    found = fp8tune("lint", str(path), "--output-format", "concise")
    assert "fp8-table-of-deepspeed" not in found.out
    assert ":5:3: warning[unknown-key-ignored]" in found.out
    fp8tune("lint", str(path), "--fix", "--unsafe-fixes")
    fixed = CONFIG.replace('accumulation_step"', 'accumulation_steps"')
    assert path.read_text() == fixed
