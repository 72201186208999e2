"""Two training steps of KempnerForge, plain or those of a pipeline's first stage."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def plain_steps(config: Any, mesh: Any, live: Any) -> None:
    """Two steps without pipeline, as scripts/train.py makes them."""
    torch: Any = import_module("torch")
    parallel: Any = import_module("kempnerforge.distributed.parallel")
    utils: Any = import_module("kempnerforge.distributed.utils")
    training: Any = import_module("kempnerforge.training")
    train, model_config = config.train, config.model
    model = parallel.build_parallel_model(
        model_config,
        torch.device("cpu"),
        mesh,
        vision_config=config.vision_encoder,
        adapter_config=config.adapter,
        vlm_config=config.vlm,
        ac_mode=train.activation_checkpointing,
        mp_policy=parallel.default_mp_policy(train.param_dtype),
        param_dtype=train.param_dtype,
    )
    optimizer = training.build_optimizer(model, config.optimizer)
    loss_fn = training.build_loss_fn(train)

    def enter_backward(_: Any) -> None:
        live.enter("backward")

    for _ in range(2):
        for micro_step in range(train.grad_accum_steps):
            batch = _batch(config)
            live.enter("forward")
            with training.maybe_no_sync(model, micro_step, train.grad_accum_steps):
                if config.is_vlm:
                    logits, labels = model(*batch)
                else:
                    labels = batch[1]
                    logits = model(batch[0])
                live.enter("loss")
                logits.register_hook(enter_backward)
                loss = loss_fn(logits, labels)
                if model_config.is_moe:
                    loss = loss + 0.01 * model.get_moe_aux_loss()
                loss.backward()
        live.enter("optimizer")
        utils.clip_grad_norm_(model, train.grad_clip_norm)
        optimizer.step()
        optimizer.zero_grad()


def _batch(config: Any) -> tuple[Any, ...]:
    torch: Any = import_module("torch")
    length = config.vlm.max_text_len if config.is_vlm else config.train.seq_len
    shape = (config.train.batch_size, length)
    tokens = torch.randint(0, config.model.vocab_size, shape)
    if config.is_vlm:
        return torch.zeros(shape[0], 3, 8, 8), tokens, tokens
    return tokens, tokens


def pipeline_steps(config: Any, mesh: Any, live: Any) -> None:
    """Two steps of the first pipeline stage.

    The 1F1B schedule of torch.distributed.pipelining, with what its PipelineStage
    allocates and how it treats FSDP modules, but without the other stages.
    """
    torch: Any = import_module("torch")
    training: Any = import_module("kempnerforge.training")
    utils: Any = import_module("kempnerforge.distributed.utils")
    train = config.train
    model = _first_stage(config, mesh)
    optimizer = training.build_optimizer(model, config.optimizer)
    shape = (train.batch_size, train.seq_len, config.model.dim)
    received = [
        torch.empty(shape, dtype=train.param_dtype)
        for _ in range(train.grad_accum_steps)
    ]
    for _ in range(2):
        live.enter("backward")
        outputs: list[Any] = []
        waiting = [_batch(config)[0] for _ in received]
        for gradient in received:
            while waiting and len(outputs) < config.distributed.pp:
                outputs.append(model(waiting.pop()))
            for name in ("is_last_backward", "reshard_after_backward"):
                getattr(model, f"set_{name}")(False)
            model.set_requires_gradient_sync(False)
            outputs.pop(0).backward(gradient)
        _reduce_gradients(model)
        live.enter("optimizer")
        utils.clip_grad_norm_(model, train.grad_clip_norm)
        optimizer.step()
        optimizer.zero_grad()


def _first_stage(config: Any, mesh: Any) -> Any:
    torch: Any = import_module("torch")
    parallel: Any = import_module("kempnerforge.distributed.parallel")
    pipeline: Any = import_module("kempnerforge.distributed.pipeline_parallel")
    tensor: Any = import_module("kempnerforge.distributed.tensor_parallel")
    with torch.device("meta"):
        model = pipeline.build_stage_module(config.model, 0, config.distributed.pp)
    # Without it apply_fsdp2 raises AttributeError at commit 5666d0d.
    model.cross_attention_layers = torch.nn.ModuleDict()
    tensor.apply_tensor_parallel(model, mesh)
    parallel.apply_ac(model, config.train.activation_checkpointing)
    policy = parallel.default_mp_policy(config.train.param_dtype)
    parallel.apply_fsdp2(model, mesh, mp_policy=policy)
    model.to_empty(device=torch.device("cpu"))
    model.init_weights_and_freqs()
    return model.to(dtype=config.train.param_dtype)


def _reduce_gradients(model: Any) -> None:
    """What PipelineStage does after the last micro-batch."""
    fsdp: Any = import_module("torch.distributed.fsdp._fully_shard._fully_shard")
    for name in ("is_last_backward", "reshard_after_backward"):
        getattr(model, f"set_{name}")(True)
    model.set_requires_gradient_sync(True)
    root = fsdp._get_module_fsdp_state(model)
    for state in root._state_ctx.all_states:
        for group in state._fsdp_param_groups:
            group.post_backward()
    root._root_post_backward_final_callback()
