"""The language server: what a client opens is checked, and its questions answered."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple, TypeVar
from urllib.parse import quote

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path, uri_scheme

from fp8tune import __version__
from fp8tune.formats import MAX_BYTES
from fp8tune.lint.bug import bug
from fp8tune.lint.diagnostic import Report
from fp8tune.lint.split import by_file
from fp8tune.lsp import actions
from fp8tune.lsp.checks import Checked, Linter, Texts
from fp8tune.lsp.completion import Offer
from fp8tune.lsp.diagnostics import diagnostic, unchecked
from fp8tune.lsp.text import Text

T = TypeVar("T")

PAUSE = 0.03
"""How long a file must stay as it is before it is checked [s]: edits come in bursts."""

LANGUAGES = {"yaml": ".yaml", "json": ".json", "jsonc": ".json", "shellscript": ".sh"}
"""The endings of texts that have no file yet, by what a client calls their language."""

WATCHED = "**/*.{toml,yaml,yml,json,sh,sbatch,slurm,txt,lock}"
"""Configs, settings and pinned packages; a client tells of changes outside of it."""


class OpenFile(NamedTuple):
    """A file that the client has open."""

    uri: str
    path: str
    version: int | None
    text: str


class Server(LanguageServer):
    """Checks the open files, and keeps what was found.

    Checks run one after the other in a thread, so that the client is always answered.
    What was found in a text that has changed meanwhile is dropped.
    """

    def __init__(self) -> None:
        # full texts: pygls splits lines also where editors do not, such as at U+2028
        sync = types.TextDocumentSyncKind.Full
        super().__init__("fp8tune", __version__, text_document_sync_kind=sync)
        self.linter = Linter()
        self.checked: dict[str, Checked] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._published: dict[str, list[types.Diagnostic]] = {}
        self._worker = ThreadPoolExecutor(1)

    @property
    def open(self) -> dict[str, OpenFile]:
        """The open files by their paths."""
        files = (
            OpenFile(
                each.uri, path_of(each.uri, each.language_id), each.version, each.source
            )
            for each in self.workspace.text_documents.values()
        )
        return {file.path: file for file in files}

    def texts(self) -> Texts:
        """Return the bytes of the open files; of a too large one enough to see it."""
        return {
            path: file.text[: MAX_BYTES + 1].encode(errors="replace")
            for path, file in self.open.items()
        }

    def text(self, text: str) -> Text:
        """Return a text with places in the units of the client."""
        return Text(text, self.workspace.position_codec)

    async def compute(self, work: Callable[..., T], *given: object) -> T:
        """Return the result of work that takes a while, once it is its turn."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._worker, work, *given)

    async def answered(self, answer: Awaitable[T], instead: T) -> T:
        """Return an answer; if it raises an error, log that and return another."""
        try:
            return await answer
        except Exception as error:
            self.log(bug(error))
            return instead

    def edited(self, path: str) -> None:
        """Check a file soon, and the open files whose checks have read it."""
        readers = (p for p, each in self.checked.items() if path in each.read)
        self.check_soon(dict.fromkeys((path, *readers)))

    def check_soon(self, paths: Iterable[str]) -> None:
        """Check open files once they stay as they are; forget what was found before."""
        there = self.open
        for path in paths:
            if path in self._tasks:
                self._tasks.pop(path).cancel()
            if path in there:
                self._tasks[path] = asyncio.ensure_future(self._check(path))

    def forget_closed(self) -> None:
        """Forget files that are open no more; for others they are as on disk again."""
        for path in (self.checked.keys() | self._tasks.keys()) - self.open.keys():
            self.edited(path)
            if self.checked.pop(path, None):
                self._publish()

    def on_disk(self) -> None:
        """Check all again: files of jobs or settings of projects have changed."""
        self.linter.forget()
        self.check_soon(self.open)

    async def _check(self, path: str) -> None:
        await asyncio.sleep(PAUSE)
        try:
            checked = await self.compute(self.linter.check, path, self.texts())
        except Exception as error:
            checked = Checked(problem=bug(error))
        problems = {each.problem for each in self.checked.values()}
        if checked.problem and checked.problem not in problems:
            self.say(checked.problem)
        for line in checked.bugs:
            self.log(line)
        self.checked[path] = checked
        self._publish(path)

    async def settled(self, path: str) -> Report | None:
        """Return what was found in the text as it is now; waits for its check."""
        while (task := self._tasks.get(path)) and not task.done():
            await asyncio.wait({task})
        return self.reports().get(path)

    def reports(self) -> dict[str, Report]:
        """Return what all checks found, by file."""
        every = (report for each in self.checked.values() for report in each.reports)
        return {os.path.abspath(report.path): report for report in by_file(every)}

    def _publish(self, checked: str = "") -> None:
        """Tell the client what is new; of a checked file also what is not."""
        there, new = self.open, dict[str, list[types.Diagnostic]]()
        for path, report in self.reports().items():
            new[path] = self._diagnostics(path, report, there)
        for path, each in self.checked.items():
            if each.problem and path not in new:
                new[path] = [unchecked(each.problem)]
        if checked:
            new.setdefault(checked, [])
        for path in {**self._published, **new}:
            now = new.get(path, [])
            if path != checked and now == self._published.get(path, []):
                continue
            file = there.get(path)
            self.text_document_publish_diagnostics(
                types.PublishDiagnosticsParams(
                    file.uri if file else uri_of(path),
                    now,
                    file.version if file and path == checked else None,
                )
            )
            self._published[path] = now
        self._published = {path: now for path, now in new.items() if now}

    def _diagnostics(
        self, path: str, report: Report, there: dict[str, OpenFile]
    ) -> list[types.Diagnostic]:
        if path in there:
            file = there[path]
            text, uri = self.text(file.text), file.uri
        else:
            text, uri = self.text(_on_disk(path)), uri_of(path)
        return [diagnostic(found, text, uri) for found in report.diagnostics]

    async def actions_for(
        self, params: types.CodeActionParams
    ) -> list[types.CodeAction]:
        """Return the fixes and ignore comments for the findings in a range."""
        path, file = self.named(params.text_document.uri)
        report = await self.settled(path)
        if file is None or report is None:
            return []
        only, found = params.context.only, list[types.CodeAction]()
        if actions.wants(types.CodeActionKind.QuickFix, only):
            work = actions.quick_fixes
            found += await self.compute(
                lambda: [*work(report, self.file(path), params.range)]
            )
        safe = any(one.fix and one.fix.safety == "safe" for one in report.diagnostics)
        if safe and actions.wants(actions.FIX_ALL, only):
            action = types.CodeAction("fp8tune: fix all, safely", actions.FIX_ALL)
            action.data = file.uri
            found.append(action if self._resolves else await self.resolved(action))
        return found

    async def resolved(self, action: types.CodeAction) -> types.CodeAction:
        """Return an action with its edit, which takes several checks."""
        path = next((p for p, f in self.open.items() if f.uri == action.data), "")
        if path:
            fixed = await self.compute(self.linter.fixed, path, self.texts())
            action.edit = actions.fix_all(self.file(path), fixed)
        return action

    async def hover(self, params: types.HoverParams) -> types.Hover | None:
        """Return what stands at a place: rules that fire, the key, and the memory."""
        path, file = self.named(params.text_document.uri)
        report = await self.settled(path)
        if file is None:
            return None
        text = self.text(file.text)
        place = text.offset(params.position)
        rules = {
            found.rule: None
            for found in (report.diagnostics if report else ())
            if actions.covers(text.region(found.region), params.position)
        }
        work = self.linter.explain
        said, span = await self.compute(work, path, self.texts(), place, [*rules])
        if not said:
            return None
        shown = types.MarkupContent(types.MarkupKind.Markdown, said)
        return types.Hover(shown, text.span(span) if span else None)

    async def complete(
        self, params: types.CompletionParams
    ) -> types.CompletionList | None:
        """Return the keys and values that may be typed at a place."""
        path, file = self.named(params.text_document.uri)
        if file is None:
            return None
        text = self.text(file.text)
        place = text.offset(params.position)
        work = self.linter.complete
        found = await self.compute(work, path, self.texts(), text.lint, place)
        if found is None:
            return None
        typed, offers = found
        start, end = place - len(typed.word), place
        if typed.word[:1] in ("'", '"'):  # the editor may have closed it
            end += text.lint[end : end + 1] == typed.word[0]
        span = text.span((start, end))
        items = [item(offer, span, number) for number, offer in enumerate(offers)]
        return types.CompletionList(False, items)

    @property
    def _resolves(self) -> bool:
        """Whether the client asks for the edit of an action once it is chosen."""
        name = "text_document.code_action.resolve_support.properties"
        return "edit" in (get_capability(self.client_capabilities, name) or ())

    def file(self, path: str) -> actions.File:
        """Return an open file as code actions see it."""
        file = self.open[path]
        name = "workspace.workspace_edit.document_changes"
        versions = get_capability(self.client_capabilities, name)
        text = self.text(file.text)
        return actions.File(file.uri, text, file.version if versions else None)

    def named(self, uri: str) -> tuple[str, OpenFile | None]:
        """Return the path of a text that a client names, and the file if it is open."""
        for path, file in self.open.items():
            if file.uri == uri:
                return path, file
        return "", None

    def say(self, message: str) -> None:
        """Show a message to the user."""
        kind = types.MessageType.Warning
        self.window_show_message(types.ShowMessageParams(kind, f"fp8tune: {message}"))

    def log(self, message: str) -> None:
        """Write a line into the client's log."""
        self.window_log_message(
            types.LogMessageParams(types.MessageType.Error, message)
        )


def path_of(uri: str, language: str | None) -> str:
    """Return the absolute path of a text; of one without a file, the name of one."""
    if uri_scheme(uri) == "file" and (path := to_fs_path(uri)):
        return os.path.abspath(path)
    return os.path.abspath(quote(uri, "") + LANGUAGES.get(language or "", ".toml"))


def uri_of(path: str) -> str:
    """Return the address of a file."""
    return from_fs_path(path) or ""


def _on_disk(path: str) -> str:
    with suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
    return ""


_KINDS = {
    "key": types.CompletionItemKind.Property,
    "section": types.CompletionItemKind.Module,
    "table": types.CompletionItemKind.Module,
    "value": types.CompletionItemKind.Value,
    "comment": types.CompletionItemKind.Keyword,
}


def item(offer: Offer, span: types.Range, number: int) -> types.CompletionItem:
    """Return what is offered in place of a span, in the order of its number."""
    page = types.MarkupContent(types.MarkupKind.Markdown, offer.page)
    return types.CompletionItem(
        offer.text.strip(' =:"') or offer.text,
        kind=_KINDS[offer.kind],
        detail=offer.note or None,
        documentation=page if offer.page else None,
        sort_text=f"{number:04}",
        filter_text=offer.text,
        text_edit=types.TextEdit(span, offer.text),
    )


def make_server() -> Server:
    """Return the server with everything that it answers."""
    server = Server()
    _hear(server)
    _answer(server)
    return server


def _hear(server: Server) -> None:
    """Register what the server does when a client tells of something."""
    feature = server.feature

    @feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        folders = params.workspace_folders or []
        root = folders[0].uri if folders else params.root_uri
        with suppress(OSError):  # paths in messages and of scripts begin there
            os.chdir(to_fs_path(root or "") or ".")

    @feature(types.INITIALIZED)
    async def initialized(_: types.InitializedParams) -> None:
        name = "workspace.did_change_watched_files.dynamic_registration"
        if get_capability(server.client_capabilities, name):
            await server.client_register_capability_async(_watching())

    @feature(types.TEXT_DOCUMENT_DID_OPEN)
    async def opened(params: types.DidOpenTextDocumentParams) -> None:
        document = params.text_document
        server.edited(path_of(document.uri, document.language_id))

    @feature(types.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(params: types.DidChangeTextDocumentParams) -> None:
        server.edited(server.named(params.text_document.uri)[0])

    @feature(types.TEXT_DOCUMENT_DID_CLOSE)
    async def closed(_: types.DidCloseTextDocumentParams) -> None:
        server.forget_closed()

    @feature(types.TEXT_DOCUMENT_DID_SAVE)
    async def saved(_: types.DidSaveTextDocumentParams) -> None:
        server.on_disk()

    @feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    async def watched(_: types.DidChangeWatchedFilesParams) -> None:
        server.on_disk()


def _answer(server: Server) -> None:
    """Register what the server answers."""
    feature = server.feature
    options = types.CodeActionOptions(actions.KINDS, resolve_provider=True)

    @feature(types.TEXT_DOCUMENT_CODE_ACTION, options)
    async def act(params: types.CodeActionParams) -> list[types.CodeAction]:
        return await server.answered(server.actions_for(params), [])

    @feature(types.TEXT_DOCUMENT_HOVER)
    async def hover(params: types.HoverParams) -> types.Hover | None:
        return await server.answered(server.hover(params), None)

    letters = types.CompletionOptions(["[", ".", "=", ":", '"', "-", " "])

    @feature(types.TEXT_DOCUMENT_COMPLETION, letters)
    async def complete(params: types.CompletionParams) -> types.CompletionList | None:
        return await server.answered(server.complete(params), None)

    @feature(types.CODE_ACTION_RESOLVE)
    async def resolve(action: types.CodeAction) -> types.CodeAction:
        return await server.resolved(action)


def _watching() -> types.RegistrationParams:
    """Return what asks a client to tell of changed files."""
    options = types.DidChangeWatchedFilesRegistrationOptions(
        [types.FileSystemWatcher(WATCHED)]
    )
    method = types.WORKSPACE_DID_CHANGE_WATCHED_FILES
    return types.RegistrationParams([types.Registration("files", method, options)])
