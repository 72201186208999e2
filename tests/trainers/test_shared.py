"""Modules that several trainers share."""

import ast
import inspect
from importlib import import_module

from fp8tune.job import sources
from fp8tune.trainers.about import About, trainers


def code(function):
    """The code of a function without its docstring."""
    tree = ast.parse(inspect.getsource(function)).body[0]
    body = tree.body[1:] if ast.get_docstring(tree) else tree.body
    return [ast.dump(tree.args), *map(ast.dump, body)]


def test_no_function_is_written_twice():
    abouts = (
        *trainers().values(),
        About("", {"title": "", "tables": [], "versions": [""]}),
    )
    for about in abouts:
        seen = {}
        for module in about.modules:
            for name, source in sources(import_module(module)).items():
                before = seen.get(name)
                assert not before or code(before) != code(source.call), (module, name)
                seen[name] = source.call
