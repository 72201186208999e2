"""The command line of the trainer: overrides behind a config are not read yet."""

from fp8tune.trainers.described.command_line import (
    CHECKED_FIRST as CHECKED_FIRST,
)
from fp8tune.trainers.described.command_line import (
    is_free_text as is_free_text,
)
from fp8tune.trainers.described.command_line import (
    load as load,
)
from fp8tune.trainers.described.command_line import (
    overridden as overridden,
)
