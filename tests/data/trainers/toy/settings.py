"""How its fields are set that are no single key."""


def precision(job, value):
    """A flag in 1.0, a list of converters in 2.0."""
    if job["trainer_version"] == "1.0":
        return {"run.fp8": value == "fp8"}
    others = [name for name in job["precision.converters"] if name != "float8"]
    return {"precision.converters": [*others, *["float8"] * (value == "fp8")]}


def grad_accum(job, value):
    """The batch of a step."""
    return {"run.global_batch": value * job["micro_batch"]}
