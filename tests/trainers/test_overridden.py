"""Keys that a launch script overrides, where the trainer's values are not read."""

import pytest

from fp8tune.formats.document import Unreadable
from fp8tune.trainers.trainer import trainer


def test_an_overridden_key_of_llamafactory_is_unknown():
    raw = {"stage": "sft", "bf16": "yes", "fp8": True, "cutoff_len": 8}
    loaded = trainer("llamafactory").load(raw, ("bf16=_", "learning_rate=_"))
    gone = {"bf16", "learning_rate"} & loaded.values.keys()
    faults = [fault.path for fault in loaded.faults]
    assert (gone, loaded.values["cutoff_len"], faults) == (set(), 8, [])


def test_an_overridden_key_of_automodel_is_unknown():
    raw = {
        "recipe": "TrainFinetuneRecipeForNextTokenPrediction",
        "step_scheduler": {"local_batch_size": 8, "max_steps": 5},
    }
    words = ("step_scheduler.local_batch_size=_", "nproc_per_node=_")
    loaded = trainer("automodel").load(raw, words)
    names = ("step_scheduler.local_batch_size", "step_scheduler.max_steps")
    assert [loaded.values.get(name) for name in names] == [None, 5]
    assert raw["step_scheduler"]["local_batch_size"] == 8


@pytest.mark.parametrize("name", ["llamafactory", "automodel", "axolotl"])
def test_overrides_by_hand_are_refused(name):
    with pytest.raises(Unreadable, match="leave out overrides"):
        trainer(name).load({}, ("a=1",))
