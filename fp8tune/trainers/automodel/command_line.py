"""Which program reads a recipe is not looked for in scripts."""

from fp8tune.trainers.described.command_line import (
    CHECKED_FIRST as CHECKED_FIRST,
)
from fp8tune.trainers.described.command_line import (
    find_call as find_call,
)
from fp8tune.trainers.described.command_line import (
    is_free_text as is_free_text,
)
from fp8tune.trainers.described.command_line import (
    load as load,
)
