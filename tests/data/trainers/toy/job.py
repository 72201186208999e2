"""Its config as a job."""


def precision(trainer_version, run_fp8=False, precision_converters=()):
    """Precision: a flag in 1.0, a converter in 2.0."""
    on = run_fp8 if trainer_version == "1.0" else "float8" in precision_converters
    return "fp8" if on else "bf16"


def grad_accum(run_global_batch, micro_batch):
    """Micro-batches per step."""
    return run_global_batch // micro_batch


def speed_on_hopper():
    """Take the place of a fact."""
    return "always"
