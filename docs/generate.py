"""The generated pages of the documentation: rules, keys, facts, myths, words, evidence.

``conf.py`` calls ``write`` before Sphinx reads the sources. What `fp8tune explain`
says of a thing is what its page says.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from os.path import relpath
from pathlib import Path

from fp8tune.cli import COMMANDS
from fp8tune.facts import FACTS
from fp8tune.facts.versions import Range, combinations
from fp8tune.fields import FIELDS
from fp8tune.lint.explain.fact import FactPage, fact_page
from fp8tune.lint.explain.glossary import terms
from fp8tune.lint.explain.key import default, kind, takes
from fp8tune.lint.explain.myths import Myth, myths
from fp8tune.lint.explain.reads import builtin
from fp8tune.lint.explain.rule import FixText, RulePage, rule_page
from fp8tune.lint.rules import CATEGORIES, CONSEQUENCES
from fp8tune.trainers.about import trainers
from fp8tune.trainers.schema import Key
from fp8tune.trainers.trainer import trainer
from fp8tune.verify import cause_page
from fp8tune.verify.cause import Cause, causes
from fp8tune.words import plain, shown

FOLDERS = ("rules", "causes", "keys", "facts", "commands", "evidence")
"""Folders below ``docs/`` that hold generated pages alone."""

LARGE = 40
"""Most keys of a section that has no page of its own."""

EVIDENCE = {
    "Lint": (
        "verdicts",
        "torchtitan_verdicts",
        "prime_rl_verdicts",
        "nvidia_verdicts",
        "other_projects",
        "llamafactory_verdicts",
        "axolotl_verdicts",
        "accelerate_verdicts",
        "deepspeed_verdicts",
        "fixes",
        "lint_speed",
        "lsp_latency",
        "config_fuzz",
        "yaml_files",
    ),
    "Runs": (
        "verify_logs",
        "verify_traces",
        "loss_gaps",
        "verify_phases",
        "verify_schedule",
    ),
    "Rules": ("rule_evidence", "trainer_faults", "sharded_shapes"),
    "Memory": (
        "depths",
        "loss_bytes",
        "torchtitan_activation_bytes",
        "torchtitan_tensor_parallel",
        "hf_memory",
        "automodel_memory",
        "megatron_memory",
    ),
    "Search": (
        "on_gpu",
        "time_to_best",
        "budgets",
        "heavy",
        "samplers",
        "trial_cost",
        "stand_in",
        "torchtitan_trial",
        "real_trainers",
        "real_trainers_yaml",
        "real_trainers_automodel",
        "real_trainers_accelerate",
        "verdicts_aa",
        "scale_simulated",
    ),
    "Stability": ("stability_aa", "warmups", "first_steps"),
}
"""Recorded results by subject; each is a page below ``benchmarks/results``."""

TITLES = {
    "lint_speed": "Speed of lint",
    "lsp_latency": "Speed of the language server",
    "verify_logs": "Speed of reading logs",
    "verify_traces": "Speed of reading traces",
}

SITE_LINKS = (
    (re.compile(r"\]\(docs/"), "]("),
    (re.compile(r"\]\(benchmarks/results/(\w+)\.md"), r"](evidence/\1.md"),
)


def write(docs: Path) -> None:
    """Write all generated pages below ``docs``, and remove those that are gone."""
    found = pages(docs.parent)
    for folder in FOLDERS:
        for path in (docs / folder).rglob("*.md"):
            if path.relative_to(docs).as_posix() not in found:
                path.unlink()
    for name, text in found.items():
        path = docs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def pages(repository: Path) -> dict[str, str]:
    """The text of every generated page by its path below ``docs/``."""
    listed = {
        **_rules(),
        **_causes(),
        **_keys(),
        **_facts(),
        **_commands(),
        "myths": _myths(),
        "reference/versions": _versions(),
        "concepts/glossary": _glossary(),
    }
    found = {f"{name}.md": _text(blocks) for name, blocks in listed.items()}
    found |= _evidence(repository)
    found["start.md"] = _start(_read(repository / "README.md"))
    found["changelog.md"] = _read(repository / "CHANGELOG.md")
    return found


def _text(blocks: Iterable[str]) -> str:
    return "\n\n".join(blocks) + "\n"


def _read(path: Path) -> str:
    """A file of the repository, with links that lead to pages of the site."""
    text = path.read_text(encoding="utf-8")
    for pattern, place in SITE_LINKS:
        text = pattern.sub(place, text)
    return text


def _start(readme: str) -> str:
    """What the README says of installing and trying it, as a page."""
    begin, end = readme.index("## Install"), readme.index("## Documentation")
    return "# Get started\n\n" + readme[begin:end]


def _rules() -> dict[str, Iterable[str]]:
    """The table of all rules, and a page for each."""
    rules = [rule_page(rule) for rule in builtin()]
    rules.sort(key=lambda page: (CATEGORIES.index(page.category), page.name))
    return {"rules/index": _rules_index(rules)} | {
        f"rules/{page.name}": rule_text(page) for page in rules
    }


def _rules_index(rules: list[RulePage]) -> Iterator[str]:
    yield WIDE
    yield "# Rules"
    yield (
        f"{len(rules)} rules. Each is a page here and in `fp8tune explain RULE`. Its "
        "category says what happens if you run the config."
    )
    yield _table(("Category", "Consequence"), CONSEQUENCES.items())
    head = ("Rule", "Code", "What it finds", "Severity", "Category", "Trainer")
    rows = (
        (
            f"[{page.name}]({page.name}.md)",
            page.code,
            page.summary,
            page.severity,
            page.category,
            page.trainer.replace(" and ", ", ") or "all",
        )
        for page in rules
    )
    yield _container("filtered", _table(head, rows))


WIDE = "---\nhide-toc: true\n---"
"""The head of a page that is one table."""


def _container(name: str, table: str) -> str:
    """A table with a class; above one that is ``filtered``, filter.js puts filters."""
    return f":::{{container}} {name}\n\n{table}\n\n:::"


def rule_text(page: RulePage) -> Iterator[str]:
    """The page of a rule, block by block."""
    yield f"---\norphan: true\n---\n\n(rule-{page.name})="
    yield f"# {page.name}"
    yield f"{page.summary}."
    yield _table(
        ("Code", "Severity", "Confidence", "Since"),
        [(f"`{page.code}`", page.severity, page.confidence, page.since)],
    )
    yield f"Category [{page.category}](index.md): {page.consequence}."
    yield _sentence(page.checks)
    yield "## Why"
    yield page.why
    for shown_one in page.bad[:1]:
        yield "## Bad example"
        yield _example(shown_one.config, page.format)
        yield f"Lint prints:\n\n{_fence(shown_one.finding)}"
    if page.good:
        yield f"## Good example\n\n{_example(page.good[0], page.format)}"
    if page.fixes:
        yield "## Fix"
        yield "\n".join(_fix(fix) for fix in page.fixes)
    if page.bad and page.bad[0].fixed:
        yield _diff(page.bad[0].config, page.bad[0].fixed)
    if page.when:
        yield f"## Condition\n\n{_fence(page.when)}"
    for experiment in page.experiments:
        yield from _experiment(experiment)
    yield f"## Evidence\n\n{_listed(page.references)}"
    if page.seen:
        yield "## Seen in the wild"
        yield "\n".join(f"- {place}" for place in page.seen)
    if page.myths:
        yield _claims(page.myths)


def _diff(before: str, after: str) -> str:
    """What a fix changes, without the names of files."""
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), n=1, lineterm=""
    )
    return _fence("\n".join(list(lines)[3:]), "diff")


def _fix(fix: FixText) -> str:
    changes = f". It changes the run: {fix.changes}" if fix.changes else ""
    option = "--fix" if fix.safety == "safe" else "--unsafe-fixes"
    return f"- `{option}`: {fix.title}{changes}."


def _experiment(experiment: dict[str, object]) -> Iterator[str]:
    yield "## Experiment"
    yield "`python -m benchmarks.rule_evidence` runs it with the trainer:"
    for name, value in experiment.items():
        if isinstance(value, str) and "\n" in value.strip():
            yield f"{name}:\n\n{_fence(value.strip(), 'toml')}"
        else:
            yield f"{name}: `{value if isinstance(value, str) else shown(value)}`"


def _keys() -> dict[str, Iterable[str]]:
    """The keys of each trainer, and a page for each large section of its config."""
    found: dict[str, Iterable[str]] = {"keys/index": _keys_index()}
    for owner in trainers():
        sections = _sections(owner)
        large = [name for name in sections if name and len(sections[name]) > LARGE]
        places = {name: f"{owner}/{name.removesuffix('[]')}" for name in large}
        found[f"keys/{owner}"] = _keys_of(owner, sections, places)
        for name in large:
            found[f"keys/{places[name]}"] = (
                f"# {trainer(owner).schema.title}: {name}",
                _keys_table(sections[name]),
            )
    return found


def _sections(owner: str) -> dict[str, dict[str, Key]]:
    """The keys of the newest release of a trainer by section, those of none first."""
    schema = trainer(owner).schema
    found: dict[str, dict[str, Key]] = {"": {}}
    for name, key in (*schema.dotted_keys(), *schema.entry_keys()):
        section = name.partition(".")[0] if "." in name else ""
        found.setdefault(section, {})[name] = key
    return {name: inside for name, inside in found.items() if inside}


def _keys_index() -> Iterator[str]:
    yield "# Config keys"
    yield (
        "The keys of each trainer's newest release. `fp8tune explain KEY` adds the "
        "rules that read a key and the facts that depend on it."
    )
    yield _table(
        ("Trainer", "Keys", "Source"),
        (
            (
                f"[{trainer(owner).schema.title}]({owner}.md)",
                str(sum(map(len, _sections(owner).values()))),
                f"<{trainer(owner).schema.source}>",
            )
            for owner in trainers()
        ),
    )
    yield _toctree(trainers(), hidden=True)


def _keys_of(
    owner: str, sections: dict[str, dict[str, Key]], places: dict[str, str]
) -> Iterator[str]:
    schema = trainer(owner).schema
    yield f"# {schema.title}"
    yield f"The keys of its config, from [its source]({schema.source})."
    if places:
        links = (f"[{name}]({place}.md)" for name, place in places.items())
        yield f"Sections on pages of their own: {', '.join(links)}."
        yield _toctree(places.values(), hidden=True)
    for name, inside in sections.items():
        if name not in places:
            yield f"## {name}" if name else "## Top level"
            yield _keys_table(inside)


def _keys_table(inside: dict[str, Key]) -> str:
    rows = (_key(name, key) for name, key in inside.items())
    head = ("Key", "Type", "Default", "Takes", "Meaning")
    return _container("keys", _table(head, rows))


def _key(name: str, spec: Key) -> tuple[str, ...]:
    aka = ", ".join(f"`{word}`" for word in spec.aka)
    meaning = f"{spec.doc} (elsewhere {aka})" if aka else spec.doc
    bare = name.partition(".")[2] or name
    value = f"`{default(spec)}`" if not spec.required else default(spec)
    return f"`{bare}`", kind(spec), value, takes(spec), meaning


def _facts() -> dict[str, Iterable[str]]:
    """The table of all facts, and a page for each that has a formula."""
    owner = next(iter(trainers()))
    names = dict.fromkeys((*FIELDS, *trainer(owner).vocabulary.computed, *FACTS))
    facts = [fact_page(owner, name) for name in names]
    return {"facts/index": _facts_index(trainer(owner).schema.title, facts)} | {
        f"facts/{page.name}": _fact(page) for page in facts if page.formula.lines
    }


def _facts_index(title: str, facts: list[FactPage]) -> Iterator[str]:
    yield WIDE
    yield "# Facts"
    yield (
        "Names that conditions of rules may use: the fields of a job, in words that "
        "every trainer shares, and what follows from them. `fp8tune explain NAME "
        "CONFIG` shows how a value comes about in a config."
    )
    head = ("Fact", "Group", "Meaning", f"In {title}")
    rows = (
        (
            f"[{page.name}]({page.name}.md)" if page.formula.lines else page.name,
            page.name.partition(".")[0] if "." in page.name else "job",
            page.meaning,
            f"`{page.said}`" if "." in page.said else page.said,
        )
        for page in facts
    )
    yield _container("filtered", _table(head, rows))


def _fact(page: FactPage) -> Iterator[str]:
    yield f"---\norphan: true\n---\n\n(fact-{page.name})="
    yield f"# {page.name}"
    yield page.meaning
    if page.details:
        yield page.details.replace("``", "`")
    if page.trainer:
        yield f"The formula of {page.trainer}:"
    yield _fence("\n".join((*page.formula.lines, *page.formula.where())))
    if page.source and not page.trainer:
        yield f"Source: {page.source}"
    if page.rules:
        links = (f"[{name}](#rule-{name})" for name in page.rules)
        yield f"Rules that read it: {', '.join(links)}"
    if page.myths:
        yield _claims(page.myths)


def _myths() -> Iterator[str]:
    yield "# Common claims about FP8"
    for myth in myths():
        yield f"(myth-{myth.name})="
        yield f'## "{myth.claim}"'
        yield f"**{myth.verdict.capitalize()}.** {myth.answer.strip()}"
        yield _listed(myth.sources)


def _causes() -> dict[str, Iterable[str]]:
    """The table of all causes of failed runs, and a page for each."""
    listed = [cause for cause in causes().values() if cause.role != "event"]
    listed.sort(key=lambda cause: (CATEGORIES.index(cause.category), cause.name))
    return {"causes/index": _causes_index(listed)} | {
        f"causes/{cause.name}": _cause(cause) for cause in listed
    }


def _causes_index(listed: list[Cause]) -> Iterator[str]:
    yield WIDE
    yield "# Causes of failed runs"
    yield (
        "What `fp8tune verify` finds in the log or the trace of a run that failed or "
        "went wrong. Each is a page here and in `fp8tune explain CAUSE`."
    )
    head = ("Cause", "What it is", "Severity", "Category")
    rows = (
        (f"[{c.name}]({c.name}.md)", c.title, c.severity, c.category) for c in listed
    )
    yield _container("filtered", _table(head, rows))


def _cause(cause: Cause) -> Iterator[str]:
    yield "---\norphan: true\n---"
    yield f"# {cause.name}"
    yield f"{cause.title}. {cause.why}"
    yield f"What to do: {cause.help}."
    examples = cause_page.examples(cause)
    if examples:
        yield f"In a log:\n\n{_fence(chr(10).join(examples))}"
    if cause.data.get("when"):
        yield f"Found if:\n\n{_fence(cause.data['when'])}"
    if cause.rules:
        links = ", ".join(map(_rule_link, cause.rules))
        yield f"Rules of lint on the same: {links}"
    yield f"Sources:\n\n{_listed(cause.references)}"


def _rule_link(name: str) -> str:
    """A link to a rule, or from a category to the table of all."""
    return f"[{name}](../rules/{'index' if name in CONSEQUENCES else name}.md)"


def _versions() -> Iterator[str]:
    yield "(unsafe-versions)="
    yield "# Unsafe package versions"
    yield (
        "Combinations of versions that are unsafe or pointless for FP8. "
        "[`fp8tune lint`](#rule-versions-that-give-nan) reads the versions that lock "
        "files and requirements beside a config pin, and those of the environment with "
        "`--installed`. `fp8tune doctor` reads those of the environment. "
        "`fp8tune search` refuses those with which its trials fail, unless "
        "`--allow-versions` is given. `fp8tune verify` names them as the cause of a "
        "NaN where the log, the run's folder or the config shows them."
    )
    for each in combinations():
        yield f"## {each.code}"
        yield _table(
            ("Package", "Versions"),
            ((f"`{name}`", _range(span)) for name, span in each.packages.items()),
        )
        yield _sentence(f"Concerns {each.what}")
        yield _sentence(each.symptom)
        yield f"Install instead: `{each.install}`"
        yield _sentence(f"Certainty, on {each.date}: {each.certainty}")
        yield _listed(each.sources)


def _range(span: Range) -> str:
    parts = (
        f"from {span.since} on" * bool(span.since),
        f"before {span.until}" * bool(span.until),
        f"not checked after {span.newest}" * bool(span.newest),
    )
    return ", ".join(filter(None, parts)) or "all"


def _commands() -> dict[str, Iterable[str]]:
    """The help of the program, and of each command."""
    index = ("# Command line", _click("cli:cli", "fp8tune"), _toctree(COMMANDS))
    return {"commands/index": index} | {
        f"commands/{name}": [
            _click(f"commands.{name}:command", f"fp8tune {name}", "full")
        ]
        for name in COMMANDS
    }


def _click(module: str, program: str, nested: str = "none") -> str:
    options = f"   :prog: {program}\n   :nested: {nested}"
    return f"```{{eval-rst}}\n.. click:: fp8tune.{module}\n{options}\n```"


def _glossary() -> Iterator[str]:
    yield "# Glossary"
    yield "`fp8tune explain WORD` prints an entry."
    entries = {
        name: f"A category of [rules](../rules/index.md): {consequence}."
        for name, consequence in CONSEQUENCES.items()
    }
    for word in terms():
        see = f" See []({relpath(word.see, 'docs/concepts')})." if word.see else ""
        entries[word.name] = f"{' '.join(word.meaning.split())}{see}"
    for name in sorted(entries, key=str.casefold):
        yield f"{name}\n: {entries[name]}"


def _claims(said: Iterable[Myth]) -> str:
    links = (f'["{m.claim}"](#myth-{m.name}) ({m.verdict})' for m in said)
    return f"Common claims: {', '.join(links)}."


def _evidence(repository: Path) -> dict[str, str]:
    """The recorded results as pages, and the page that lists them."""
    found = {}
    blocks = ["# Recorded results", "Each page names its date, machine and versions."]
    for subject, names in EVIDENCE.items():
        blocks.append(f"## {subject}")
        blocks.append(_toctree(names))
        for name in names:
            path = repository / "benchmarks" / "results" / f"{name}.md"
            text = path.read_text(encoding="utf-8").replace("(../../docs/", "(../")
            title = "" if text.startswith("# ") else f"# {TITLES[name]}\n\n"
            found[f"evidence/{name}.md"] = title + text
    found["evidence/index.md"] = _text(blocks)
    return found


def _toctree(names: Iterable[str], *, hidden: bool = False) -> str:
    option = ":hidden:\n" if hidden else ":maxdepth: 1\n"
    return "```{toctree}\n" + option + "\n".join(("", *names)) + "\n```"


def _listed(addresses: Iterable[str]) -> str:
    marks = (f"<{a}>" if a.startswith("http") else f"`{a}`" for a in addresses)
    return "\n".join(f"- {mark}" for mark in marks)


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def _fence(body: str, language: str = "text") -> str:
    lines = "\n".join(plain(line) for line in body.split("\n"))
    return f"```{language}\n{lines}\n```"


def _example(body: str, form: str) -> str:
    """Fence a config; as text where it is not all of the format.

    Such as Hjson, or an example in the format of another of the rule's trainers.
    """
    try:
        {"json": json.loads, "toml": tomllib.loads}.get(form, str)(body)
    except ValueError:
        form = "text"
    return _fence(body, form)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
