"""The generated pages of the documentation: rules, keys, facts, myths, words, evidence.

``conf.py`` calls ``write`` before Sphinx reads the sources. What `fp8tune explain`
says of a thing is what its page says.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from os.path import relpath
from pathlib import Path

from fp8tune.facts import FACTS
from fp8tune.facts.versions import Range, combinations
from fp8tune.fields import FIELDS
from fp8tune.lint.explain import keys
from fp8tune.lint.explain.fact import FactPage, fact_page
from fp8tune.lint.explain.glossary import terms
from fp8tune.lint.explain.key import default, kind, takes
from fp8tune.lint.explain.myths import Myth, myths
from fp8tune.lint.explain.reads import builtin
from fp8tune.lint.explain.rule import FixText, RulePage, rule_page
from fp8tune.lint.rules import CONSEQUENCES
from fp8tune.trainers.about import trainers
from fp8tune.trainers.schema import Key
from fp8tune.trainers.trainer import trainer
from fp8tune.verify import cause_page
from fp8tune.verify.cause import Cause, causes
from fp8tune.words import plain, shown

FOLDERS = ("rules", "facts", "evidence")
"""Folders below ``docs/`` that hold generated pages alone."""

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
        "transfer",
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
        for path in (docs / folder).glob("*.md"):
            if path.relative_to(docs).as_posix() not in found:
                path.unlink()
    for name, text in found.items():
        path = docs / name
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def pages(repository: Path) -> dict[str, str]:
    """The text of every generated page by its path below ``docs/``."""
    found = {"rules/index.md": _text(_rules_index())}
    for category in CONSEQUENCES:
        rules = [rule_page(r) for r in builtin() if r.category == category]
        found[f"rules/{category}.md"] = _text(_category(category, rules))
        found |= {f"rules/{page.name}.md": _text(rule_text(page)) for page in rules}
    found["keys.md"] = _text(_keys())
    found |= {f"facts/{name}.md": _text(lines) for name, lines in _facts()}
    found["myths.md"] = _text(_myths())
    found["reference/causes.md"] = _text(_causes())
    found["reference/versions.md"] = _text(_versions())
    found["concepts/glossary.md"] = _text(_glossary())
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


def _rules_index() -> Iterator[str]:
    yield "# Rules"
    yield (
        "Each rule is a page here and in `fp8tune explain RULE`. Its category says "
        "what happens if you run the config."
    )
    yield _table(
        ("Category", "Consequence"),
        ((f"[{name}]({name}.md)", said) for name, said in CONSEQUENCES.items()),
    )
    yield _toctree(CONSEQUENCES)


def _category(category: str, rules: list[RulePage]) -> Iterator[str]:
    yield f"# {category.capitalize()}"
    yield f"{_sentence(CONSEQUENCES[category])} {len(rules)} rules."
    yield _table(
        ("Rule", "Code", "Severity", "What it finds"),
        ((f"[{p.name}]({p.name}.md)", p.code, p.severity, p.summary) for p in rules),
    )


def rule_text(page: RulePage) -> Iterator[str]:
    """The page of a rule, block by block."""
    whose = f"{page.trainer} configs" if page.trainer else "configs of every trainer"
    yield f"---\norphan: true\n---\n\n(rule-{page.name})="
    yield f"# {page.name}"
    yield f"{page.summary}."
    yield (
        f"`{page.code}`, [{page.category}]({page.category}.md), {page.severity}, "
        f"confidence {page.confidence}, since {page.since}; checks {whose}."
    )
    yield "## Why"
    yield page.why
    if page.bad:
        yield "## Example"
        yield _example(page.bad[0].config, page.format)
        yield f"Lint prints:\n\n{_fence(page.bad[0].finding)}"
    if page.good:
        yield f"It prints nothing for:\n\n{_example(page.good[0], page.format)}"
    if page.fixes:
        yield "## Fix"
        yield "\n".join(_fix(fix) for fix in page.fixes)
    if page.when:
        yield f"## Condition\n\n{_fence(page.when)}"
    for experiment in page.experiments:
        yield from _experiment(experiment)
    yield f"## Evidence\n\n{_listed(page.references)}"
    if page.myths:
        yield _claims(page.myths)


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


def _keys() -> Iterator[str]:
    yield "# Config keys"
    for owner in trainers():
        newest = trainer(owner).id
        schema = trainer(owner).schema
        yield (
            f"What [{schema.title}]({schema.source}) reads. `fp8tune explain KEY` adds "
            "the rules that read a key and the facts that depend on it."
        )
        for section in schema.sections:
            yield f"## [{section}]"
            yield _table(
                ("Key", "Type", "Default", "Takes", "Meaning", "Called elsewhere"),
                (
                    _key(name, owners[newest])
                    for name, owners in keys().items()
                    if newest in owners and name.partition(".")[0] == section
                ),
            )


def _key(name: str, spec: Key) -> tuple[str, ...]:
    called = ", ".join(f"`{word}`" for word in spec.aka)
    bare = name.partition(".")[2]
    value = f"`{default(spec)}`" if not spec.required else default(spec)
    return f"`{bare}`", kind(spec), value, takes(spec), spec.doc, called


def _facts() -> Iterator[tuple[str, Iterable[str]]]:
    """The name of each page of facts, and its blocks."""
    groups: dict[str, list[str]] = {}
    for name in FACTS:
        groups.setdefault(name.partition(".")[0], []).append(name)
    yield "index", _facts_index(groups)
    yield "job", _job()
    for group, names in groups.items():
        pages = (fact_page(next(iter(trainers())), name) for name in names)
        yield group, (f"# {group}", *(block for p in pages for block in _fact(p)))


def _facts_index(groups: dict[str, list[str]]) -> Iterator[str]:
    yield "# Facts"
    yield (
        "Names that conditions of rules may use. `fp8tune explain NAME CONFIG` shows "
        "how a value comes about in a config."
    )
    yield "- [job](job.md): the fields of a job, in words that every trainer shares"
    yield "\n".join(
        f"- [{group}]({group}.md): {', '.join(f'`{name}`' for name in names)}"
        for group, names in groups.items()
    )
    yield _toctree(("job", *groups), hidden=True)


def _job() -> Iterator[str]:
    owner = next(iter(trainers()))
    title = trainer(owner).schema.title
    fields = [fact_page(owner, name) for name in FIELDS]
    yield "# job"
    yield _table(
        ("Field", "Meaning", title), ((p.name, p.meaning, _key_of(p)) for p in fields)
    )
    yield f"## Formulas of {title}"
    own = (n for n in trainer(owner).vocabulary.computed if n not in {*FACTS, *FIELDS})
    for page in (*fields, *(fact_page(owner, name) for name in own)):
        if page.formula.lines:
            yield from _fact(page)


def _key_of(page: FactPage) -> str:
    if page.formula.lines:
        return f"[formula](#fact-{page.name})"
    return f"`{page.said}`" if "." in page.said else page.said


def _fact(page: FactPage) -> Iterator[str]:
    yield f"(fact-{page.name})="
    yield f"## {page.name}"
    yield page.meaning
    if page.details:
        yield page.details.replace("``", "`")
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


def _causes() -> Iterator[str]:
    """The causes of failed runs by category, and a section for each."""
    listed = [cause for cause in causes().values() if cause.role != "event"]
    yield "# Causes of failed runs"
    yield (
        "What `fp8tune verify` finds in the log or the trace of a run that failed or "
        "went wrong. `fp8tune explain CAUSE` prints a section."
    )
    for category, consequence in CONSEQUENCES.items():
        own = [cause for cause in listed if cause.category == category]
        if own:
            yield f"## {category.capitalize()}: {consequence}"
            rows = ((f"[{c.name}](#cause-{c.name})", c.severity, c.title) for c in own)
            yield _table(("Cause", "Severity", "What it is"), rows)
    for cause in listed:
        yield from _cause(cause)


def _cause(cause: Cause) -> Iterator[str]:
    yield f"(cause-{cause.name})="
    yield f"## {cause.name}"
    yield f"{cause.title}. {cause.why}"
    yield f"What to do: {cause.help}."
    examples = cause_page.examples(cause)
    if examples:
        yield f"In a log:\n\n{_fence(chr(10).join(examples))}"
    if cause.data.get("when"):
        yield f"Found if:\n\n{_fence(cause.data['when'])}"
    if cause.rules:
        links = ", ".join(f"[{name}](../rules/{name}.md)" for name in cause.rules)
        yield f"Rules of lint on the same: {links}"
    yield f"Sources:\n\n{_listed(cause.references)}"


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


def _glossary() -> Iterator[str]:
    yield "# Glossary"
    yield "`fp8tune explain WORD` prints an entry."
    entries = {
        name: f"A category of [rules](../rules/{name}.md): {consequence}."
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
