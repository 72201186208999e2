"""The built-in rules, as lint reads them and as a pack."""

from fp8tune.lint.builtin import builtin_folder, read_builtin
from fp8tune.lint.packs import read_pack
from tests.each import each

BUILTIN = read_builtin()
PACK = read_pack(builtin_folder())
each_rule = each("rule", PACK)
