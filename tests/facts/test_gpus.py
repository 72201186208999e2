"""The GPU table: names, families, and a source for every figure."""

import re
import tomllib
from pathlib import Path

import pytest

from fp8tune.facts import gpu, gpus
from fp8tune.job import Unknown
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


@each_gpu
def test_every_figure_has_its_source(entry):
    figures = {field for field in FIGURES if field in entry}
    assert set(entry["sources"]) == figures
    assert [s for s in entry["sources"].values() if not s.startswith("https://")] == []


FIRST_HAND = (
    "https://developer.nvidia.com/",
    "https://docs.nvidia.com/",
    "https://images.nvidia.com/",
    "https://www.nvidia.com/",
    "https://github.com/",
)
"""The vendor, and reports, code and tables of people who have the GPU."""


@each_gpu
def test_sources_of_the_wrong_kind_are_marked(entry):
    other = {
        field
        for field, source in entry["sources"].items()
        if not source.startswith(FIRST_HAND)
    }
    assert other == set(entry.get("second_hand", ()))


@each_gpu
def test_torch_reports_no_more_memory_than_is_sold(entry):
    sold = [int(n) for n in re.findall(r"(\d+) GB", entry["title"])]
    assert entry.get("memory_gib", 0) <= sold[0]
    assert entry.get("nominal_gib", sold[0]) == sold[0]
    assert ("nominal_gib" in entry) is ("memory_gib" not in entry)


def test_a_family_has_no_more_memory_than_its_largest():
    assert gpu.memory_limit_gib("gh200") == 144
    assert gpu.memory_limit_gib("a100") == 79.15
    assert gpu.memory_limit_gib("h800") == 80
    assert gpu.memory_limit_gib("h200") == gpu.memory_gib("h200")


@each_gpu
def test_figures_are_of_a_believable_size(entry):
    for field, low, high in (
        ("compute_capability", 7.0, 12.5),
        ("memory_gib", 10, 300),
        ("hbm_gb_per_s", 200, 10000),
        ("bf16_tflops", 30, 5000),
        ("fp8_tflops", 60, 10000),
    ):
        assert low <= entry.get(field, low) <= high


@each_gpu
def test_fp8_is_twice_bf16_where_there_is_a_matmul(entry):
    if "fp8_tflops" in entry:
        assert entry["fp8_matmul"]
        assert entry["fp8_tflops"] == pytest.approx(2 * entry["bf16_tflops"], rel=0.02)


@each_gpu
def test_no_measured_matmul_is_faster_than_the_peak(entry):
    for kind in ("bf16", "fp8"):
        peak = entry.get(f"{kind}_tflops", 0)
        assert 0.5 * peak <= entry.get(f"{kind}_measured_tflops", peak) <= peak


@each_gpu
def test_fp8_needs_compute_capability_8_9_on_nvidia(entry):
    if entry["vendor"] == "nvidia" and "compute_capability" in entry:
        assert entry["fp8_matmul"] is (entry["compute_capability"] >= 8.9)


@each_gpu
def test_an_entry_is_found_by_each_of_its_names(entry):
    names = [entry["name"], entry["title"], *entry["aliases"]]
    found = {gpus.resolve(name) for name in names if name != entry["title"]}
    assert found == {entry["name"]}


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
        ("h100", "h100-sxm"),
        ("H100", "h100-sxm"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("nvidia_h100", "h100-sxm"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("h200", "h200"),
        ("A100-SXM4-80GB", "a100-80gb"),
        ("a100", "a100"),
        ("NVIDIA A100", "a100"),
        ("GeForce RTX 3090", "rtx-3090"),
        (" H200 ", "h200"),
        ("H100-80GB", "h100-sxm"),
        ("NVIDIA H200", "h200"),
        ("a100-40gb", "a100-40gb"),
        ("a100-40", "a100-40gb"),
        ("A100 80", "a100-80gb"),
        ("h100-80", "h100-sxm"),
        ("gh200-96", "gh200-96gb"),
        ("NVIDIA A100-SXM4-40GB", "a100-40gb"),
        ("h100 nvl", "h100-nvl"),
        ("H200 NVL", "h200-nvl"),
        ("GH200", "gh200"),
        ("RTX 4090", "rtx-4090"),
        ("AMD Instinct MI300X", "mi300x"),
        ("A100 PCIe", "a100"),
        ("H200 141GB HBM3e", "h200"),
    ],
)
def test_resolve(written, name):
    assert gpus.resolve(written) == name


@each(
    ("written", "near"),
    [
        ("h1000", "h100"),
        ("h10", "h100"),
        ("a10gg", "a10g"),
        ("h100nvl", "h100-nvl"),
        ("h20-141gb", ""),
        ("h200-142gb", "h200-141gb"),
        ("rtx-4080", ""),
        ("", ""),
        ("tpu-v5", ""),
        ("b100", ""),
        ("rtx 4080", ""),
        ("mi325x", ""),
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


@pytest.mark.parametrize(
    ("name", "title", "capability", "matmul", "memory"),
    [
        ("h100-sxm", "NVIDIA H100 SXM 80 GB", 9.0, True, 79.11),
        ("a100", "NVIDIA A100", 8.0, False, None),
        ("h100-pcie", "NVIDIA H100 PCIe 80 GB", 9.0, True, 79.18),
        ("h800", "NVIDIA H800 SXM 80 GB", 9.0, True, None),
        ("a10g", "NVIDIA A10G 24 GB", 8.6, False, 22.19),
    ],
)
def test_facts_of_a_gpu(name, title, capability, matmul, memory):
    assert (gpu.title(name), gpu.compute_capability(name), gpu.fp8_matmul(name)) == (
        title,
        capability,
        matmul,
    )
    if memory is None:
        with pytest.raises(Unknown) as error:
            gpu.memory_gib(name)
        assert error.value.args == ("gpu.memory_gib",)
    else:
        assert gpu.memory_gib(name) == memory


@pytest.mark.parametrize(
    "fact", [gpu.title, gpu.compute_capability, gpu.fp8_matmul, gpu.memory_gib]
)
def test_facts_of_no_gpu(fact):
    with pytest.raises(Unknown) as error:
        fact("nosuch")
    assert error.value.args == ("gpu",)
