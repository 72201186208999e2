"""A study is kept in Optuna's storage, whole, and Optuna reads it."""

import json
import resource
import shutil
import signal
import subprocess
import sys
import time

import optuna
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from fp8tune.runners.replay import Replay
from fp8tune.search.database import without_password
from fp8tune.search.pool import Peer
from fp8tune.search.saved_study import look
from fp8tune.search.storage import BadStudy
from fp8tune.search.study import Study
from fp8tune.trials.record import OUTCOMES, LossRun, Record, parse
from fp8tune.trials.space import Knob, Space
from fp8tune.trials.trial import STAGES, Trial
from tests.search.tries import (
    AC,
    BATCH,
    BEST,
    BF16,
    GIVEN,
    OTHER,
    SPACE,
    order,
    planned,
    ran,
    space_of,
    trials,
)

TRIALS = trials(
    ("baseline", ran(GIVEN, more={"gpu": "H200", "losses": [6.0, 5.5]})),
    ("bf16-baseline", ran(BF16, outcome="oom")),
    ("search", ran(BEST, 120, step_ms=(1.5, 2.25))),
    ("search", ran(OTHER, outcome="hang")),
    ("confirm", ran(BEST, 119)),
)
ABOUT = {"config": "a.toml", "given": [1, 1, 1, 1]}
NAME = "study.journal"


def filled(folder, url="") -> Study:
    study = Study(SPACE, str(folder), url)
    study.describe(ABOUT)
    for trial in TRIALS:
        study.add(trial.stage, trial.record)
    return study


@pytest.fixture(params=["journal", "sqlite", "shared journal"])
def url(request, tmp_path):
    places = {"sqlite": f"sqlite:///{tmp_path}/x.db", "shared journal": f"{tmp_path}/x"}
    return places.get(request.param, "")


def test_what_is_told_is_there_again(tmp_path, url):
    study = filled(tmp_path / "s", url)
    study.take_up()
    study.note(output="a.tuned.toml")
    filled(tmp_path / "another", url)
    again = Study(SPACE, str(tmp_path / "s"), url)
    ended = {**ABOUT, "output": "a.tuned.toml"}
    assert (again.trials, again.about, again.spent) == (TRIALS, ended, 300.0)
    assert look(str(tmp_path / "s"), url) == (ended, TRIALS)
    again.take_up()
    assert again.add("search", ran(BEST)).process == 1
    again.describe(ABOUT)
    assert look(str(tmp_path / "s"), url)[0] == ABOUT


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_optuna_reads_the_file_as_one_of_its_own(tmp_path):
    running = filled(tmp_path / "s").ask(planned(OTHER))
    storage = JournalStorage(JournalFileBackend(str(tmp_path / "s" / NAME)))
    study = optuna.load_study(study_name="s", storage=storage)
    seen = [(t.state.name, t.values, t.params) for t in study.trials]
    assert seen == [
        ("COMPLETE", [100.0], SPACE.values(GIVEN)),
        ("PRUNED", None, SPACE.values(BF16)),
        ("COMPLETE", [120.0], SPACE.values(BEST)),
        ("PRUNED", None, SPACE.values(OTHER)),
        ("COMPLETE", [119.0], SPACE.values(BEST)),
        ("RUNNING", None, SPACE.values(OTHER)),
    ]
    assert study.trials[0].user_attrs == {
        "stage": "baseline",
        "process": 0,
        "record": {
            "outcome": "ok",
            "tokens_per_second": 100.0,
            "step_ms": [],
            "peak_gib": 0.0,
            "reserved_gib": 0.0,
            "cost_s": 60.0,
            "gpu": "H200",
            "losses": [6.0, 5.5],
        },
    }
    assert (study.best_params, running) == (SPACE.values(BEST), 5)
    batches, ac = (
        study.trials[0].distributions[BATCH],
        study.trials[0].distributions[AC],
    )
    assert batches == optuna.distributions.IntDistribution(1, 8, log=True)
    assert ac == optuna.distributions.CategoricalDistribution(("none", "full"))


@pytest.mark.parametrize(
    ("stage", "record", "objective", "state", "value"),
    [
        ("stability", ran(BEST, 90), "", "FAIL", None),
        ("search", ran(BEST, 90), "tokens-per-joule", "FAIL", None),
        (
            *("search", ran(BEST, 90, more={"tokens_per_joule": 2.5})),
            *("tokens-per-joule", "COMPLETE", [2.5]),
        ),
    ],
)
def test_states_and_values(stage, record, objective, state, value):
    study = Study(SPACE)
    study.describe({"objective": objective})
    study.add(stage, record)
    (trial,) = study.optuna.trials
    assert (trial.state.name, trial.values) == (state, value)


NUMBERS = st.floats(0, 1e17, exclude_max=True)
FREE = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | NUMBERS | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
FIELDS = st.dictionaries(
    st.text(max_size=8).filter(lambda name: name not in RESERVED), FREE, max_size=4
)
RESERVED = {"stage", "process", "trial", "knobs", *Record._fields}


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.sampled_from([GIVEN, BF16, BEST, OTHER, (0, 0, 0, 0)]),
    st.sampled_from(sorted(OUTCOMES)),
    st.sampled_from(STAGES),
    st.lists(NUMBERS, max_size=4),
    FIELDS,
)
def test_any_record_comes_back(tmp_path_factory, point, outcome, stage, steps, more):
    data = {"knobs": SPACE.values(point), "outcome": outcome, "step_ms": steps, **more}
    data["tokens_per_second"] = 1.5
    record = parse(json.dumps(data))
    folder = str(tmp_path_factory.mktemp("s"))
    told = Study(SPACE, folder).add(stage, record)
    assert look(folder)[1] == [told] == [Trial(0, stage, record)]
    Study(SPACE, folder).export(f"{folder}/trials.jsonl")
    with open(f"{folder}/trials.jsonl") as file:
        line = json.loads(file.read())
    assert line == {**json.loads(record.line()), "trial": 0, "stage": stage}


def test_a_number_that_no_record_holds_is_none(tmp_path):
    Study(SPACE, str(tmp_path)).add("search", ran(BEST, 120, more={"mine": 1.5}))
    path = tmp_path / NAME
    path.write_text(path.read_text().replace('"mine":1.5', '"mine":NaN'))
    study = Study(SPACE, str(tmp_path))
    study.export(str(tmp_path / "t.jsonl"))
    assert json.loads((tmp_path / "t.jsonl").read_text())["mine"] is None


def test_a_key_that_is_not_set_and_values_of_several_types(tmp_path):
    space = Space([Knob("x", (None, True, 1.5, "1")), Knob("y", (0, 4), "micro_batch")])
    study = Study(space, str(tmp_path / "s"))
    records = [ran((i, i % 2), space=space) for i in range(4)]
    told = [study.add("search", record) for record in records]
    assert look(str(tmp_path / "s"))[1] == told
    assert told[0].record.knobs == {"y": 0}
    with pytest.raises(BadStudy, match="`x`: two of its values are equal numbers"):
        Study(Space([Knob("x", (1, True))]))


@pytest.mark.parametrize("text", ["a\n", "a", "[train]\nx = 1\n", '{"op_code"\n{}\n'])
def test_a_file_that_is_no_journal_stays_as_it_is(tmp_path, text):
    path = tmp_path / "a.toml"
    path.write_text(text)
    with pytest.raises(BadStudy, match=r"a\.toml:1: not an operation of a study; move"):
        Study(SPACE, str(tmp_path / "s"), str(path))
    assert path.read_text() == text


def test_cut_off_at_any_byte(tmp_path):
    """As a process that is killed leaves it; and a search goes on with the rest."""
    study = Study(SPACE, str(tmp_path / "s"))
    study.describe(ABOUT)
    study.add("baseline", TRIALS[0].record)
    study.add("search", TRIALS[2].record)
    path = tmp_path / "s" / NAME
    whole, told = path.read_bytes(), study.trials
    ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]
    lines = [json.loads(line) for line in whole.splitlines()]
    finished = [
        end
        for end, line in zip(ends, lines, strict=True)
        if line["op_code"] == 6  # a trial's state is set
    ]
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        known = sum(end <= cut for end in finished)
        if cut >= ends[0]:
            assert look(str(tmp_path / "s"))[1] == told[:known]
        if cut % 50 == 0 or cut == len(whole) - 1:
            again = Study(SPACE, str(tmp_path / "s"))
            again.end_stale()
            assert again.trials == told[:known]
            again.describe(ABOUT)
            again.add(told[1].stage, told[1].record)
            assert look(str(tmp_path / "s")) == (ABOUT, again.trials)
    states = [trial.state.name for trial in again.optuna.trials]
    assert states == ["COMPLETE", "FAIL", "COMPLETE"]


@pytest.mark.parametrize("last", [b"{}\n", b"\0\0\0\n", b"\xff\n", b'{"op_code"\n'])
def test_a_last_line_that_is_no_operation_is_removed(tmp_path, last):
    filled(tmp_path / "s")
    path = tmp_path / "s" / NAME
    whole = path.read_bytes()
    path.write_bytes(whole + last)
    assert Study(SPACE, str(tmp_path / "s")).trials == TRIALS
    assert path.read_bytes() == whole
    path.write_bytes(last + whole)
    with pytest.raises(BadStudy, match=r"study.journal:1: not an operation of a study"):
        Study(SPACE, str(tmp_path / "s"))


WRITER = """\
import sys
from fp8tune.search.study import Study
from tests.search.tries import BEST, SPACE, ran
study = Study(SPACE, sys.argv[1])
print("open", flush=True)
while True:
    trial = study.add("search", ran(BEST, more={"losses": [1.0] * 20000}))
    print(trial.number, flush=True)
"""


def test_a_process_that_is_killed_loses_only_the_trial_that_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    known = 0
    for number in range(4):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "s")], stdout=subprocess.PIPE
        ) as process:
            said = [process.stdout.readline() for _ in range(3)]
            time.sleep(0.013 * number)
            process.send_signal(signal.SIGKILL)
            said += process.stdout.read().splitlines()
        found = look(str(tmp_path / "s"))[1]
        assert len(found) - known in (len(said) - 1, len(said))
        assert all(len(t.record.losses) == 20000 for t in found)
        known = len(found)


@pytest.mark.parametrize("room", [0, 40, 900])
def test_a_full_disk_loses_only_the_trial_that_it_cannot_hold(tmp_path, room):
    study = filled(tmp_path / "s")
    path = tmp_path / "s" / NAME
    size = path.stat().st_size
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, limits[1]))
    try:
        with pytest.raises(BadStudy, match=r"study\.journal: .* kept"):
            study.add("search", ran(BEST, 120))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes().endswith(b"\n")
    again = Study(SPACE, str(tmp_path / "s"))
    assert study.trials == again.trials == TRIALS


def test_a_link_in_the_place_of_the_journal_is_not_followed(tmp_path):
    study, path = filled(tmp_path / "s"), tmp_path / "s" / NAME
    mine = path.rename(tmp_path / "mine.txt")
    before = mine.read_bytes()
    path.symlink_to(mine)
    for use in (
        lambda: study.add("search", ran(BEST)),
        lambda: Study(SPACE, str(tmp_path / "s")),
        lambda: look(str(tmp_path / "s")),
    ):
        with pytest.raises(BadStudy, match=r"study\.journal: .* link"):
            use()
    assert mine.read_bytes() == before


def test_a_study_that_is_removed_keeps_nothing(tmp_path):
    study = filled(tmp_path / "s")
    shutil.rmtree(tmp_path / "s")
    with pytest.raises(BadStudy, match="the study and its trials were removed") as told:
        study.add("search", ran(BEST, 120))
    assert "kept" not in str(told.value)


def test_a_trial_that_was_interrupted_never_counts(tmp_path):
    study = filled(tmp_path / "s")
    study.optuna.enqueue_trial({AC: "none"})  # as the dashboard does: it is left alone
    study.lose(study.ask(planned(OTHER)))
    study.ask(planned(OTHER))  # and then the process was killed
    again = Study(SPACE, str(tmp_path / "s"))
    assert [each.point for each in again.running.values()] == [OTHER]
    again.end_stale()
    assert (again.trials, again.running) == (TRIALS, {})
    lost = again.optuna.trials[len(TRIALS) + 1 :]
    assert [t.state.name for t in lost] == ["FAIL", "FAIL"]
    added = again.add("search", ran(OTHER))
    assert (added.number, added.position) == (len(TRIALS) + 3, len(TRIALS))
    assert look(str(tmp_path / "s"))[1] == [*TRIALS, added]
    assert added.data()["trial"] == added.number


def test_a_trial_of_a_worker_goes_on_where_the_study_is_opened_again(tmp_path):
    loss_run = LossRun(seed=1, warmup_steps=2, steps=3, config_warmup_steps=4)
    trial = planned(
        OTHER, stage="stability", loss_run=loss_run, worker="vm GPU 0", at_s=12.0
    )
    number = filled(tmp_path / "s").ask(trial)
    again = Study(SPACE, str(tmp_path / "s"))
    again.end_stale()
    assert again.running == {number: trial}


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mongo://me:secret@host/x", "mongo://me:***@host/x: unknown kind of storage"),
        ("://", "://: not a storage URL, such as sqlite:///study.db"),
        ("nodriver+x://a", "nodriver+x://a: unknown kind of storage"),
        (
            "postgresql+psycopg2://me:secret@127.0.0.1:1/x?password=secret",
            "postgresql+psycopg2://me:***@127.0.0.1:1/x?password=***: ",
        ),
        ("sqlite:////none/of/that/x.db", "x.db: unable to open database file"),
        (
            "postgresql//me@db/x",  # a colon is missing
            "postgresql//me@db/x: there is no folder postgresql//me@db; create it, or "
            "write a URL, such as postgresql://HOST/DATABASE",
        ),
    ],
)
def test_a_storage_that_cannot_be_opened_is_said_in_one_line(tmp_path, url, said):
    with pytest.raises(BadStudy) as error:
        Study(SPACE, str(tmp_path / "s"), url)
    assert said in str(error.value)
    assert "secret" not in str(error.value)
    assert "\n" not in str(error.value)


def test_a_study_that_another_search_takes_over_ends_this_one_in_one_line(tmp_path):
    """Only SQLite: elsewhere a lock is in the way, or searches join."""
    url = f"sqlite:///{tmp_path}/x.db"

    class TakenOver(Replay):
        def run(self, knobs, limits):
            Study(SPACE, str(tmp_path / "s"), url).end_stale()
            return super().run(knobs, limits)

    records = [ran(OTHER)]
    pool = Peer(
        Study(SPACE, str(tmp_path / "s"), url), TakenOver(records, space_of(records))
    )
    pool.start(order(OTHER))
    with pytest.raises(BadStudy, match=r"x\.db: trial 0 was ended: another search"):
        pool.wait()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:a:b@c@h/x", "postgresql://u:***@h/x"),
        ("redis://:p@h:6379", "redis://:***@h:6379"),
        ("mysql://u@h/x?passwd=p&a=b", "mysql://u@h/x?passwd=***&a=b"),
        ("postgresql://u@h/x?sslpassword=p", "postgresql://u@h/x?sslpassword=***"),
        ("sqlite:///a:b/x.db", "sqlite:///a:b/x.db"),
        ("folder/x.journal", "folder/x.journal"),
    ],
)
def test_no_password_is_shown(url, shown):
    assert without_password(url) == shown
