"""What a trial trains on."""

import itertools

import numpy
import pytest
import torch

from fp8tune.runners.builtin.data import BadData, ShortData, batches, synthetic_tokens
from fp8tune.search.answer.answer import BAD_DATA, DATA_ERRORS
from tests.runners.builtin.small import SMALL, runner, spec


def spec_of(folder, pattern="*.npy", text=SMALL, more=""):
    """The spec of a trial that reads the files of a folder."""
    data = f'dataset_path = "{folder}"\nfile_pattern = "{pattern}"\n{more}'
    return spec(f"{text}[data]\n{data}")


def test_made_up_tokens_follow_a_rule():
    made = spec()
    tokens = next(synthetic_tokens(made))
    assert tokens.shape == (2, 33)
    follows = {}
    for row in tokens.tolist():
        for start in range(0, 32, 16):
            word = row[start : start + 16]
            for one, next_one in itertools.pairwise(word):
                assert follows.setdefault(one, next_one) == next_one


@pytest.mark.parametrize("name", ["a.npy", "a.bin"])
def test_shards_of_the_user(tmp_path, name):
    ids = (numpy.arange(33 * 8) % 100).astype("uint16")
    path = tmp_path / name
    numpy.save(path, ids) if name.endswith("npy") else ids.astype("uint32").tofile(path)
    made = spec_of(tmp_path, name)
    assert made.data_files == [str(path)]
    inputs, labels = next(batches(made))
    order = torch.randperm(8, generator=torch.Generator().manual_seed(42))
    rows = ids.reshape(8, 33)[order[:2]].tolist()
    assert inputs.tolist() == [row[:-1] for row in rows]
    assert labels.tolist() == [row[1:] for row in rows]


HERE, TYPO = 'dataset_path = "{here}"\n', 'dataset_path = "{here}/typo"\n'
SECOND = '[[data.datasets]]\npath = "{here}"\n[[data.datasets]]\n'


@pytest.mark.parametrize(
    ("data", "files", "missing"),
    [
        ("", 0, ""),
        ('hf_dataset_name = "wikitext"\n', 0, ""),
        (HERE, 1, ""),
        (HERE.replace("here}", "here}/..") + 'file_pattern = "**/*.npy"\n', 1, ""),
        (TYPO, 0, "`*.npy` in `{here}/typo`"),
        (HERE + 'file_pattern = "*.bin"\n', 0, "`*.bin` in `{here}`"),
        (f'{TYPO}{SECOND}hf_name = "wikitext"\n', 1, ""),
        (f'{SECOND}path = "typo"\n', 1, "`*.npy` in `typo`"),
    ],
)
def test_data_that_the_trainer_does_not_find(tmp_path, data, files, missing):
    here = tmp_path / "data"
    here.mkdir()
    (here / "a.npy").write_bytes(b"")
    job = runner(f"{SMALL}[data]\n{data.format(here=here)}").job({})
    expected = missing and f"no file matches {missing.format(here=here)}"
    assert (job["data_missing"], len(job["data_files"])) == (expected, files)


@pytest.mark.parametrize(
    ("rows", "error", "said"),
    [
        (0, BadData, "no data file holds 33 tokens, a sequence; name longer ones"),
        (1, ShortData, "the data files hold less than 2 sequences of 33 "),
    ],
)
def test_too_few_sequences_are_said(tmp_path, rows, error, said):
    numpy.save(tmp_path / "a.npy", numpy.zeros(33 * rows + 5, dtype="uint16"))
    with pytest.raises(error, match=said):
        next(batches(spec_of(tmp_path)))


@pytest.mark.parametrize("workers", [0, 4])
def test_passes_are_shuffled_over_files_as_the_trainer_does(tmp_path, workers):
    """By data_seed and the number of the pass (data/sampler.py, DistributedSampler)."""
    ids = (numpy.arange(33 * 5) % 100).astype("uint16")
    for name, part in (("a", ids[: 33 * 3]), ("b", ids[33 * 3 :])):
        numpy.save(tmp_path / f"{name}.npy", part)
    text = SMALL.replace("batch_size = 2", "data_seed = 7\nbatch_size = 2")
    made = spec_of(tmp_path, text=text, more=f"num_workers = {workers}\n")
    stream = batches(made)
    read = [next(stream)[0].tolist() for _ in range(4)]
    stream.close()
    for number in range(2):
        source = torch.Generator().manual_seed(7 + number)
        order = torch.randperm(5, generator=source).split(2)[:2]  # the fifth is left
        rows = [ids.reshape(5, 33)[o][:, :-1].tolist() for o in order]
        assert read[2 * number : 2 * number + 2] == rows


def test_an_id_that_the_model_does_not_have_is_said(tmp_path):
    numpy.save(tmp_path / "a.npy", numpy.full(33 * 2, 60000, dtype="uint16"))
    with pytest.raises(BadData, match=r"the id 60000, .* vocabulary has \d+; set"):
        next(batches(spec_of(tmp_path)))


NO_ARRAY = "no array of NumPy, and raw ids are read only where the first file .*"


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.npy", b"", ".*"),
        ("a.bin", b"", ".*"),
        ("a.npy", b"\x93NUMPY\1", ".*"),
        ("a.npy", b"\1\0" * 99, NO_ARRAY),
        ("a.dat", b"\1\0\0\0" * 99, NO_ARRAY),
    ],
)
def test_a_file_that_cannot_be_read_is_said(tmp_path, name, content, why):
    (tmp_path / name).write_bytes(content)
    said = rf"^`.*/{name}` cannot be read: {why}; fix or remove it$"
    with pytest.raises(BadData, match=said):
        next(batches(spec_of(tmp_path, name)))


@pytest.mark.parametrize("bad", [b"", b"\1\0" * 33])
def test_every_file_is_opened_before_the_first_step(tmp_path, bad):
    numpy.save(tmp_path / "a.npy", numpy.zeros(33 * 8, dtype="uint16"))
    (tmp_path / "b.npy").write_bytes(bad)
    with pytest.raises(BadData, match=r"b\.npy` cannot be read"):
        next(batches(spec_of(tmp_path)))


@pytest.mark.parametrize(
    ("first", "second"), [("a.bin", "b.bin"), ("a.bin", "b.npy"), ("a.bin", "b.dat")]
)
def test_raw_ids_as_the_trainer_reads_them(tmp_path, first, second):
    """By the first file's ending; a byte too many is left."""
    ids = (numpy.arange(33 * 2) % 100).astype("uint16")
    (tmp_path / first).write_bytes(ids[:33].tobytes() + b"\7")
    (tmp_path / second).write_bytes(ids[33:].tobytes())
    inputs, _ = next(batches(spec_of(tmp_path, "*")))
    assert inputs.tolist() == ids.reshape(2, 33)[:, :-1].tolist()


def test_a_search_knows_a_trial_without_fit_data_by_its_error():
    assert (BadData.__name__, ShortData.__name__) == DATA_ERRORS
    assert DATA_ERRORS[0] == BAD_DATA
