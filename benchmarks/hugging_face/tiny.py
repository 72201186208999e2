"""Make a tiny model of random weights and a tiny data set, and configs for both.

``PYTHON -m benchmarks.hugging_face.tiny FOLDER`` needs a Python with transformers. The
configs are for a CPU: transformers' Trainer refuses bf16 there unless asked to use
the CPU, which LLaMA-Factory has a key for and Axolotl has not. NeMo Automodel asks for
a GPU in any case.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

VOCABULARY, ROWS = 320, 2000
CONFIGS = {
    "accelerate": {
        "launch.yaml": """\
compute_environment: LOCAL_MACHINE
distributed_type: "NO"
mixed_precision: bf16
num_processes: 1
""",
        "sft.yaml": """\
model_name_or_path: {folder}/model
datasets:
  - path: json
    data_files: {folder}/data/prompts.json
max_length: 256
per_device_train_batch_size: 2
gradient_accumulation_steps: 2
gradient_checkpointing: false
num_train_epochs: 2
learning_rate: 1.0e-3
warmup_steps: 3
bf16: true
output_dir: {folder}/kept
save_steps: 2
eval_on_start: true
load_best_model_at_end: true
push_to_hub: true
hub_model_id: numbers
""",
    },
    "automodel": {
        "train.yaml": """\
recipe: TrainFinetuneRecipeForNextTokenPrediction
step_scheduler:
  local_batch_size: 2
  global_batch_size: 4
  num_epochs: 2
  ckpt_every_steps: 2
  val_every_steps: 2
dist_env:
  backend: gloo
model:
  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained
  pretrained_model_name_or_path: {folder}/model
  torch_dtype: bfloat16
  use_liger_kernel: false
  attn_implementation: sdpa
distributed:
  strategy: fsdp2
  activation_checkpointing: false
checkpoint:
  checkpoint_dir: {folder}/kept
loss_fn:
  _target_: nemo_automodel.components.loss.masked_ce.MaskedCrossEntropy
dataset: &data
  _target_: nemo_automodel.components.datasets.llm.ColumnMappedTextInstructionDataset
  path_or_dataset_id: {folder}/data/numbers.json
  column_mapping: {question: instruction, answer: output}
  seq_length: 256
  padding: max_length
  truncation: true
validation_dataset: *data
dataloader:
  _target_: torchdata.stateful_dataloader.StatefulDataLoader
  collate_fn:
    _target_: nemo_automodel.components.datasets.utils.default_collater
    pad_seq_len_divisible: 16
  shuffle: true
optimizer:
  _target_: torch.optim.AdamW
  lr: 1.0e-3
lr_scheduler:
  lr_decay_style: cosine
  lr_warmup_steps: 3
wandb:
  project: numbers
  mode: online
seed: 1
""",
    },
    "axolotl": {
        "train.yaml": """\
base_model: {folder}/model
datasets:
  - path: {folder}/data/numbers.json
    ds_type: json
    type: alpaca
dataset_prepared_path: {folder}/prepared
sequence_len: 256
sample_packing: false
micro_batch_size: 2
gradient_accumulation_steps: 2
num_epochs: 2
learning_rate: 1.0e-3
optimizer: adamw_torch
lr_scheduler: cosine
warmup_steps: 3
bf16: false
output_dir: {folder}/kept
save_steps: 2
evals_per_epoch: 4
val_set_size: 0.1
wandb_project: numbers
"""
    },
    "llamafactory": {
        "train.yaml": """\
model_name_or_path: {folder}/model
stage: sft
do_train: true
finetuning_type: full
dataset: numbers
dataset_dir: {folder}/data
template: default
cutoff_len: 256
output_dir: {folder}/kept
per_device_train_batch_size: 2
gradient_accumulation_steps: 2
num_train_epochs: 2
learning_rate: 1.0e-3
warmup_steps: 3
bf16: true
save_steps: 2
plot_loss: true
"""
    },
}
"""The files of a job by trainer, the one that leads it first. What saves, evaluates and
logs is there because a trial must turn it off."""


def main(folder: str) -> None:
    """Write the model and the data."""
    root = Path(folder)
    tokenizers: Any = import_module("tokenizers")
    transformers: Any = import_module("transformers")
    byte_level = tokenizers.pre_tokenizers.ByteLevel
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = byte_level()
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    tokenizer.train_from_iterator(
        ["one two three four five six seven"] * 10,
        tokenizers.trainers.BpeTrainer(
            vocab_size=VOCABULARY,
            special_tokens=[*special.values()],
            initial_alphabet=byte_level.alphabet(),
        ),
    )
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)
    fast.save_pretrained(root / "model")
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(root / "model")
    rows = [
        {
            "instruction": f"count from {first}",
            "input": "",
            "output": " ".join(str(first + more) for more in range(8)),
        }
        for first in range(ROWS)
    ]
    (root / "data").mkdir(exist_ok=True)
    (root / "data/numbers.json").write_text(json.dumps(rows))
    prompts = [
        {"prompt": row["instruction"], "completion": f" {row['output']}"}
        for row in rows
    ]
    (root / "data/prompts.json").write_text(json.dumps(prompts))
    names = {"numbers": {"file_name": "numbers.json"}}
    (root / "data/dataset_info.json").write_text(json.dumps(names))


if __name__ == "__main__":
    main(sys.argv[1])
