"""The job: what a run is, in words that every trainer shares.

A job is a mapping from names to values that are worked out when first asked for:
config keys (``train.batch_size``), fields of the job (``micro_batch``), and facts
(``memory.peak_gib``). What cannot be known raises ``Unknown``; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

FIELDS: dict[str, str] = {
    "precision": "compute precision of the linears: bf16, fp16, fp32 or fp8",
    "micro_batch": "sequences per data-parallel rank and forward pass",
    "seq_len": "tokens per sequence",
    "grad_accum": "micro-batches per optimizer step",
    "max_steps": "optimizer steps of the run",
    "warmup_steps": "steps of linear learning-rate warmup",
    "learning_rate": "peak learning rate",
    "optimizer": "optimizer, by the trainer's name",
    "schedule": "learning-rate schedule, by the trainer's name",
    "ac": "activation checkpointing mode, by the trainer's name",
    "ac_attention_only": "whether AC covers the attention modules alone",
    "compile": "whether the model is compiled",
    "hidden_size": "width of the residual stream",
    "layers": "transformer blocks",
    "heads": "query heads",
    "kv_heads": "key/value heads",
    "head_dim": "size of one attention head",
    "ffn_size": "width of a dense FFN",
    "ffn_matrices": "linears per FFN: 3 when gated (SwiGLU), else 2",
    "dense_ffn_layers": "blocks whose FFN is dense",
    "moe_layers": "blocks whose FFN is a mixture of experts",
    "vocab_size": "rows of the embedding, columns of the head",
    "max_seq_len": "longest sequence that positions are built for",
    "tied_embeddings": "whether head and embedding share one weight",
    "experts": "experts per MoE block, 0 for a dense model",
    "expert_size": "width of one expert's FFN",
    "shared_experts": "experts per MoE block that every token passes",
    "tp": "tensor-parallel degree",
    "pp": "pipeline stages",
    "cp": "context-parallel degree",
    "ep": "expert-parallel degree",
    "dp_shard": "FSDP shards",
    "dp_replicate": "replicas of the sharded group",
    "fp8_recipe": "torchao recipe of the FP8 linears",
    "fp8_all_gather": "whether FSDP2 gathers weights in FP8",
    "fp8_converts_head": "whether the output head runs in FP8",
    "fp8_tokens": "M of the FP8 linears on one rank, one per token stream",
    "gemms": "linears of one rank and micro-batch: M, K, N, count, FP8, passes",
    "expert_gemms": "those of routers and experts",
    "attention_passes": "forward passes that attention costs in forward and backward",
    "sharded": "whether FSDP wraps the model",
    "shards": "ranks that share one copy of the weights",
    "sequence_parallel": "whether TP also splits norms and residual stream",
    "head_shards": "ranks that the output head is split over",
    "stage_layers": "blocks of the first pipeline stage",
    "in_flight": "micro-batches that the first stage holds activations of",
    "cross_blocks": "cross-attention blocks between the others",
    "block_copies": "copies of a block's weights, one per modality",
    "block_tokens": "tokens of one micro-batch in the residual stream",
    "head_tokens": "tokens of one micro-batch that rank 0 has logits of",
    "weight_bytes": "bytes per parameter of the sharded weights",
    "optimizer_bytes": "bytes per parameter of the optimizer's state",
    "optimizer_temporary_bytes": "bytes per parameter that its step allocates",
    "gradient_bytes": "bytes per parameter of reduced gradients",
    "kept_gradient_bytes": "bytes per parameter of those that outlive the step",
    "accumulated_gradient_bytes": "bytes per parameter kept sharded by accumulation",
    "unsharded_gradient_bytes": "bytes per parameter kept whole by accumulation",
    "gathered_bytes": "bytes per parameter of a block held whole in the backward pass",
    "init_bytes": "bytes per parameter held before sharding",
    "activation_bytes": "bytes per token that one block keeps for the backward pass",
    "norm_bytes": "bytes per token that one norm keeps",
    "attention_bytes": "bytes per token that the attention of one block keeps",
    "ffn_bytes": "bytes per token that one dense FFN keeps",
    "expert_bytes": "bytes per token that one mixture of experts keeps",
    "expert_rows": "rows per token that experts compute while routing has collapsed",
    "balanced_rows": "rows per token if all experts got as many tokens",
    "cross_bytes": "bytes per token that cross-attention blocks keep",
    "recompute_bytes": "bytes per token of one block in its backward pass",
    "router_bytes": "bytes per token that an MoE block keeps after it",
    "spare_bytes": "bytes per token of the peak that may not be there",
    "head_bytes": "bytes per token that final norm and head keep",
    "logit_bytes": "bytes per token and vocabulary entry of the loss at the peak",
    "held_logit_bytes": "bytes per token and vocabulary entry for the backward pass",
    "extra_parameters": "parameters beside the decoder",
    "estimate_family": "measured runs that the estimate's error is taken from",
    "parameters": "parameters of the whole model",
    "decoder_parameters": "parameters of the language model, a part of the whole",
    "checkpoint_interval": "optimizer steps between checkpoints",
    "checkpoints": "checkpoints that a run to the end writes",
    "late_phase": "first step of a data phase that the run does not reach, or 0",
    "resumes_from_own_folder": "whether the load path is a checkpoint of this run",
    "activation": "activation of the FFN, by torch's name",
    "rope_theta": "base of the rotary positions",
    "norm_eps": "epsilon of the norms",
    "qk_norm": "whether queries and keys are normalised per head",
    "init_std": "standard deviation of the initial weights",
    "top_k": "experts that a token goes to",
    "moe_every": "every so many blocks one is a mixture of experts",
    "loss": "loss function, by the trainer's name",
    "loss_chunk": "tokens per chunk of a chunked loss",
    "weight_decay": "decay of matrices per step, times the learning rate",
    "betas": "decay rates of the optimizer's moments",
    "eps": "epsilon of the optimizer",
    "clip_norm": "norm that gradients are clipped to",
    "fp8_skips": "words in names of linears that stay out of FP8",
    "data_files": "files of token ids that the run reads, sorted",
    "trial_refusal": "why a trial cannot stand for the run, or nothing",
    "gpu": "GPU model the run is for",
    "world_size": "GPUs of the run",
}
"""Every field of the job and what it means; an adapter gives those it knows."""


class Words(str):
    """Text that is prose or a name, shown without quotes in messages."""

    __slots__ = ()


class Unknown(Exception):
    """A name has no known value here; ``args[0]`` is that name."""


def known(name: str, value: T | None) -> T:
    """``value``, or ``Unknown(name)`` when there is none."""
    if value is None:
        raise Unknown(name)
    return value


class Target(NamedTuple):
    """What the run is for, and where each figure was said."""

    gpu: str = ""
    world_size: int = 0
    gpu_origin: str = ""
    world_size_origin: str = ""


class Source(NamedTuple):
    """A function of the job: its parameters name what it reads.

    One that is ``of_job`` gets the job before them, to ask what other values give.
    """

    call: Callable[..., Any]
    parameters: tuple[str, ...]
    optional: tuple[str, ...]
    of_job: bool = False


def sources(module: ModuleType, prefix: str = "") -> dict[str, Source]:
    """The public functions of a module, as names of the job."""
    found = {}
    for name, value in vars(module).items():
        if name[0] != "_" and getattr(value, "__module__", "") == module.__name__:
            code = getattr(value, "__code__", None)
            if code is not None:
                names = code.co_varnames[: code.co_argcount]
                required = len(names) - len(value.__defaults__ or ())
                of_job = names[:1] == ("job",)
                found[prefix + name] = Source(
                    value, names[of_job:], names[required:], of_job
                )
    return found


class Vocabulary(NamedTuple):
    """All names that the jobs of one trainer know.

    ``keys`` are the trainer's config keys, ``renamed`` maps fields to keys,
    ``computed`` holds the fields and facts that are functions, ``found`` remembers
    the origins that were asked for.
    """

    keys: frozenset[str]
    renamed: dict[str, str]
    computed: dict[str, Source]
    spelled: dict[str, str]
    found: dict[str, list[str]]

    def knows(self, name: str) -> bool:
        """Whether some job of this trainer may have the name."""
        return (
            name in self.renamed
            or name in self.computed
            or name in self.keys
            or name in ("gpu", "world_size")
        )

    def names(self) -> Iterator[str]:
        """Every name, for did-you-mean."""
        yield from (*FIELDS, *self.computed, *self.keys)

    def origins(self, name: str) -> list[str]:
        """Config keys, and ``gpu`` or ``world_size``, that a name depends on."""
        if name not in self.found:
            origins: dict[str, None] = {}
            self._collect(name, origins)
            self.found[name] = list(origins)
        return self.found[name]

    def _collect(self, name: str, found: dict[str, None]) -> None:
        name = self.spelled.get(name, name)
        if name in self.renamed:
            found[self.renamed[name]] = None
        elif name in self.computed:
            for parameter in self.computed[name].parameters:
                self._collect(parameter, found)
        else:
            found[name] = None


def vocabulary(
    keys: frozenset[str], renamed: dict[str, str], computed: dict[str, Source]
) -> Vocabulary:
    """Build a vocabulary; parameters spell ``a.b`` as ``a_b``."""
    spelled = {name.replace(".", "_"): name for name in (*keys, *computed)}
    spelled |= {name: name for name in renamed}
    return Vocabulary(keys, renamed, computed, spelled, {})


class Job(dict[str, Any]):
    """The values of one config, worked out on demand.

    ``job["tp"]`` gives the value or raises ``Unknown``; ``written`` are the config
    keys that stand in the file.
    """

    def __init__(
        self,
        words: Vocabulary,
        values: dict[str, Any],
        written: set[str],
        target: Target,
    ) -> None:
        super().__init__(values)
        self.given = values
        self.words = words
        self.written = written
        self.target = target
        self._lacking: dict[str, str] = {}
        if target.gpu:
            self["gpu"] = target.gpu
        if target.world_size:
            self["world_size"] = target.world_size

    def __missing__(self, name: str) -> Any:
        if name in self._lacking:
            raise Unknown(self._lacking[name])
        try:
            value = self._found(name)
        except Unknown as missing:
            self._lacking[name] = missing.args[0]
            raise
        self[name] = value
        return value

    def _found(self, name: str) -> Any:
        words = self.words
        if name in words.renamed:
            return self[words.renamed[name]]
        if name in words.computed:
            return self._call(words.computed[name])
        if words.spelled.get(name, name) != name:
            return self[words.spelled[name]]
        raise Unknown(name)

    def with_values(self, changes: dict[str, Any]) -> Job:
        """The job of the same run with other values of some fields."""
        renamed = self.words.renamed
        changed = {renamed.get(name, name): value for name, value in changes.items()}
        return Job(self.words, self.given | changed, self.written, self.target)

    def _call(self, source: Source) -> Any:
        arguments: dict[str, Any] = {"job": self} if source.of_job else {}
        spelled = self.words.spelled
        for name in source.parameters:
            try:
                arguments[name] = self[spelled.get(name, name)]
            except Unknown:
                if name not in source.optional:
                    raise
        try:
            return source.call(**arguments)
        except (ArithmeticError, TypeError, ValueError) as error:
            raise Unknown(source.call.__name__) from error

    def writes(self, name: str) -> bool:
        """Whether a config key that says ``name`` stands in the file."""
        return not self.written.isdisjoint(self.words.origins(name))

    def key(self, name: str) -> str:
        """The config key that says ``name``: one that is written, if any is."""
        keys = self.keys_of(name)
        return next((key for key in keys if key in self.written), keys[0])

    def keys_of(self, name: str) -> list[str]:
        """The config keys that a name depends on, or the name itself."""
        origins = self.words.origins(name)
        return [key for key in origins if key in self.words.keys] or [name]
