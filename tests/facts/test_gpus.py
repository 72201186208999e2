"""The GPU table: names, families, and a source for every figure."""

import re
import tomllib
from pathlib import Path

import pytest

from fp8tune.facts import gpus
from tests.each import each

FILE = Path(gpus.__file__).with_name("gpus.toml")
DATA = tomllib.loads(FILE.read_text(encoding="utf-8"))
FIGURES = (
    "compute_capability",
    "memory_gib",
    "hbm_gb_per_s",
    "bf16_tflops",
    "fp8_tflops",
    "bf16_measured_tflops",
    "fp8_measured_tflops",
)
each_gpu = each("entry", DATA["gpu"], ids=lambda entry: entry["name"])


FIRST_HAND = (
    "https://developer.nvidia.com/",
    "https://docs.nvidia.com/",
    "https://images.nvidia.com/",
    "https://www.nvidia.com/",
    "https://github.com/",
)
"""The vendor, and reports, code and tables of people who have the GPU."""


@each_gpu
def test_every_figure_has_its_source(entry):
    figures = {field for field in FIGURES if field in entry}
    sources = entry["sources"]
    assert set(sources) == figures
    assert all(source.startswith("https://") for source in sources.values())
    other = {field for field in sources if not sources[field].startswith(FIRST_HAND)}
    assert other == set(entry.get("second_hand", ()))


@each_gpu
def test_figures_are_believable(entry):
    for field, low, high in (
        ("compute_capability", 7.0, 12.5),
        ("memory_gib", 10, 300),
        ("hbm_gb_per_s", 200, 10000),
        ("bf16_tflops", 30, 5000),
        ("fp8_tflops", 60, 10000),
    ):
        assert low <= entry.get(field, low) <= high
    sold = [int(n) for n in re.findall(r"(\d+) GB", entry["title"])]
    assert entry.get("memory_gib", 0) <= sold[0]
    assert entry.get("nominal_gib", sold[0]) == sold[0]
    assert ("nominal_gib" in entry) is ("memory_gib" not in entry)
    for kind in ("bf16", "fp8"):
        peak = entry.get(f"{kind}_tflops", 0)
        assert 0.5 * peak <= entry.get(f"{kind}_measured_tflops", peak) <= peak
    if "fp8_tflops" in entry:
        assert entry["fp8_matmul"]
        assert entry["fp8_tflops"] == pytest.approx(2 * entry["bf16_tflops"], rel=0.02)
    if entry["vendor"] == "nvidia" and "compute_capability" in entry:
        assert entry["fp8_matmul"] is (entry["compute_capability"] >= 8.9)


def test_no_name_means_two_gpus():
    seen = {}
    for entry in (*DATA["gpu"], *DATA["family"]):
        for name in {
            gpus._plain(name) for name in (entry["name"], *entry.get("aliases", ()))
        }:
            assert seen.setdefault(name, entry["name"]) == entry["name"]


@each(
    ("written", "name"),
    [
        ("H100", "h100-sxm"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("A100-SXM4-80GB", "a100-80gb"),
        ("a100", "a100"),
        ("GeForce RTX 3090", "rtx-3090"),
        ("H100-80GB", "h100-sxm"),
        ("a100-40gb", "a100-40gb"),
        ("A100 80", "a100-80gb"),
        ("gh200-96", "gh200-96gb"),
        ("h100 nvl", "h100-nvl"),
        ("GH200", "gh200"),
        ("AMD Instinct MI300X", "mi300x"),
        ("H200 141GB HBM3e", "h200"),
    ],
)
def test_resolve(written, name):
    assert gpus.resolve(written) == name


@each(
    ("written", "near"),
    [
        ("h1000", "h100"),
        ("a10gg", "a10g"),
        ("h20-141gb", ""),
        ("h200-142gb", "h200-141gb"),
        ("tpu-v5", ""),
        ("rtx 4080", ""),
    ],
)
def test_unknown_gpu(written, near):
    with pytest.raises(gpus.UnknownGpu) as error:
        gpus.resolve(written)
    assert error.value.args == (written, near)


@pytest.mark.parametrize("entry", DATA["family"], ids=lambda entry: entry["name"])
def test_a_family_has_the_figures_on_which_its_members_agree(entry):
    family = gpus.find(entry["name"])
    members = [gpus.find(name) for name in entry["members"]]
    assert len(members) > 1
    for field in (*FIGURES, "fp8_matmul", "vendor"):
        values = [getattr(member, field) for member in members]
        agreed = values[0] if values.count(values[0]) == len(values) else None
        assert getattr(family, field) == agreed
    assert (family.name, family.title) == (entry["name"], entry["title"])
    assert not set(family.aliases) & {a for member in members for a in member.aliases}
