"""How the names of training arguments are read from the packages, and kept."""

import tomllib

from tools.accelerate.arguments import ENUMS, lines

CONFIG = """\
class TrainingArguments:
    seed: int = 1
    _hidden: int = 0
"""
TRL = """\
class Base(TrainingArguments):
    shared: int = 0

class SFTConfig(Base):
    {}: int = 1
    registry: ClassVar[dict] = {{}}
    made: int = field(init=False)
"""
SCRIPT = """\
class ScriptArguments:
    dataset_name: str

def make_parser():
    return TrlParser((ScriptArguments, SFTConfig))
"""
WORDS = "".join(f'class {name}:\n    NO = "no"\n' for name in sorted({*ENUMS.values()}))
LAUNCH = 'parser.add_argument("--num_processes", "--num-processes", type=int)\n'


def test_names_of_each_class_and_release(tmp_path):
    files = {
        "accelerate-1.0.0/accelerate/commands/launch.py": LAUNCH,
        "transformers-4.9.0/transformers/training_args.py": CONFIG,
        "transformers-5.0.0/transformers/training_args.py": f"{CONFIG}    new: int\n",
        "transformers-4.9.0/transformers/trainer_utils.py": WORDS,
        "transformers-5.0.0/transformers/trainer_utils.py": f'{WORDS}    NEW = "new"\n',
        "trl-0.9.0/trl/trainer/sft_config.py": TRL.format("max_seq_length"),
        "trl-0.10.0/trl/trainer/sft_config.py": TRL.format("max_length"),
        "trl-0.9.0/trl/scripts/sft.py": SCRIPT,
        "trl-0.10.0/trl/scripts/sft.py": SCRIPT,
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    parsed = tomllib.loads("\n".join(lines(tmp_path)))
    del parsed["trl"]["other"]
    no = {"..": "no\n"}
    assert parsed == {
        "newest": {"trl": "0.10.0", "transformers": "5.0.0"},
        "transformers": {"TrainingArguments": {"..": "seed\n", "5.0..": "new\n"}},
        "values": {
            **dict.fromkeys(ENUMS, no),
            "lr_scheduler_type": no | {"5.0..": "new\n"},
            "optim": no | {"..4.9": "adamw_hf\n"},
        },
        "trl": {
            "sft": {
                "..": "dataset_name shared\n",
                "..0.10": "max_seq_length\n",
                "0.10..": "max_length\n",
            }
        },
        "launch": {"..": "num_processes\n"},
    }
