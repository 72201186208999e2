"""Reports of users: the config that they gave, rebuilt, gets the finding."""

import pytest

from fp8tune.job import Unknown
from tests.sample import LLAMAFACTORY

# LlamaFactory#9500: FP8 training silently falls back to BF16
SILENT_BF16 = LLAMAFACTORY + "cutoff_len: 512\nper_device_train_batch_size: 2\n"
SILENT_BF16 += "bf16: true\noutput_dir: o\nfp8: true\nfp8_backend: te\n"
RELEASES = ("4.57.6", "5.2.0", "5.3.0", "5.6.0")


@pytest.mark.parametrize(("backend", "on"), [("te", 2), ("torchao", 1)])
def test_what_decides_is_the_release_of_transformers(job, backend, on):
    text = SILENT_BF16.replace("te\n", f"{backend}\n", 1)
    precisions = [job(text, transformers=release)["precision"] for release in RELEASES]
    assert precisions == ["fp8"] * on + ["bf16"] * (len(RELEASES) - on)
    with pytest.raises(Unknown, match="transformers"):
        job(text)["precision"]
    assert job(text, "0.9.4")["precision"] == "bf16"


@pytest.mark.parametrize(
    ("bound", "rules"),
    [
        ("transformers==5.3", {"fp8-with-transformers-5": "fp8"}),
        ("transformers<5.3", {}),
        ("transformers<=5.8", {"fp8-lost-on-transformers-5": "fp8"}),
    ],
)
def test_an_upper_bound_tells_only_what_is_not_there(bound, rules, found, tmp_path):
    (tmp_path / "requirements.txt").write_text(bound)
    assert found(SILENT_BF16, path=str(tmp_path / "train.yaml")) == rules


def test_json_is_not_read_by_one_release(found):
    text = '{"model_name_or_path": "a", "stage": "pt", "fp8": false}'
    rules = {
        version: {*found(text, version, "x.json")} for version in ("0.9.4", "0.9.5")
    }
    assert rules["0.9.5"] - rules["0.9.4"] == {"json-not-read"}
    assert "json-not-read" not in found(text)
