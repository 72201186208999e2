"""The built-in rules, as lint reads them and as a pack."""

import pytest

from fp8tune.lint.builtin import builtin_folder, read_builtin
from fp8tune.lint.packs import read_pack

BUILTIN = read_builtin()
PACK = read_pack(builtin_folder())
each_rule = pytest.mark.parametrize("rule", PACK, ids=lambda rule: rule.name)
