"""A client of the language server over stdio, for tests and the latency benchmark."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.lsp.client import LanguageClient

ROOT = Path(__file__).parents[2]
LANGUAGES = {".toml": "toml", ".yaml": "yaml", ".json": "json", ".sh": "shellscript"}
PATIENCE = 20
"""How long an answer is waited for [s]."""


class Client(LanguageClient):
    """A client that keeps what the server tells it."""

    def __init__(self) -> None:
        super().__init__("test", "0")
        self.diagnostics: dict[str, list[types.Diagnostic]] = {}
        self.published: list[tuple[str, int | None]] = []
        self.logged: list[str] = []
        self.shown: list[str] = []
        self.registered: list[str] = []
        self._versions: dict[str, int] = {}
        self._texts: dict[str, str] = {}
        self._news = asyncio.Event()
        self.ended: tuple[int | None, str] | None = None
        self._listen()

    async def server_exit(self, server: asyncio.subprocess.Process) -> None:
        """Keep how the server ended, and what it said on stderr."""
        said = await server.stderr.read() if server.stderr else b""
        self.ended = server.returncode, said.decode()

    def _listen(self) -> None:
        @self.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def published(params: types.PublishDiagnosticsParams) -> None:
            self.diagnostics[params.uri] = [*params.diagnostics]
            self.published.append((params.uri, params.version))
            self._news.set()

        @self.feature(types.WINDOW_LOG_MESSAGE)
        def logged(params: types.LogMessageParams) -> None:
            self.logged.append(params.message)
            self._news.set()

        @self.feature(types.WINDOW_SHOW_MESSAGE)
        def shown(params: types.ShowMessageParams) -> None:
            self.shown.append(params.message)
            self._news.set()

        @self.feature(types.CLIENT_REGISTER_CAPABILITY)
        def registered(params: types.RegistrationParams) -> None:
            self.registered += [each.method for each in params.registrations]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for news of the server until something holds."""
        async with asyncio.timeout(PATIENCE):
            while not holds():
                self._news.clear()
                await self._news.wait()

    def text(self, path: Path) -> str:
        """Return the text of an open file."""
        return self._texts[path.as_uri()]

    async def open(self, path: Path, text: str | None = None) -> list[str]:
        """Open a file, with another text than on disk; return its findings."""
        uri, text = path.as_uri(), path.read_text() if text is None else text
        self._texts[uri], self._versions[uri] = text, 1
        language = LANGUAGES.get(path.suffix, "plaintext")
        item = types.TextDocumentItem(uri, language, 1, text)
        self.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return await self.answer(path)

    def change(self, path: Path, old: str, new: str) -> None:
        """Replace a part of an open file."""
        uri = path.as_uri()
        assert old in self._texts[uri]
        self._texts[uri] = self._texts[uri].replace(old, new, 1)
        self._versions[uri] += 1
        document = types.VersionedTextDocumentIdentifier(self._versions[uri], uri)
        whole = types.TextDocumentContentChangeWholeDocument(self._texts[uri])
        self.text_document_did_change(
            types.DidChangeTextDocumentParams(document, [whole])
        )

    async def edit(self, path: Path, old: str, new: str) -> list[str]:
        """Replace a part of an open file; return what is found then."""
        self.change(path, old, new)
        return await self.answer(path)

    async def answer(self, path: Path) -> list[str]:
        """Return the rules that fire in an open file as it is now."""
        uri = path.as_uri()
        await self.until(lambda: (uri, self._versions[uri]) in self.published)
        return self.rules(path)

    def rules(self, path: Path) -> list[str]:
        """Return the rules that fire in a file, by what the server said last."""
        return [str(each.code) for each in self.diagnostics.get(path.as_uri(), [])]

    def save(self, path: Path) -> None:
        """Write the text of an open file, and say so."""
        path.write_text(self.text(path))
        document = types.TextDocumentIdentifier(path.as_uri())
        self.text_document_did_save(types.DidSaveTextDocumentParams(document))

    def close(self, path: Path) -> None:
        """Close a file."""
        document = types.TextDocumentIdentifier(path.as_uri())
        self.text_document_did_close(types.DidCloseTextDocumentParams(document))

    async def actions(
        self, path: Path, at: str, only: list[str] | None = None
    ) -> list[types.CodeAction]:
        """Return the code actions at the first place of a text in an open file."""
        place = self.position(path, at)
        params = types.CodeActionParams(
            types.TextDocumentIdentifier(path.as_uri()),
            types.Range(place, place),
            types.CodeActionContext([], only),
        )
        return [*(await self.text_document_code_action_async(params) or ())]

    async def hover(self, path: Path, at: str) -> types.Hover | None:
        """Return what the server says of the first place of a text in an open file."""
        document = types.TextDocumentIdentifier(path.as_uri())
        params = types.HoverParams(document, self.position(path, at))
        return await self.text_document_hover_async(params)

    async def complete(self, path: Path, at: str) -> list[str]:
        """Return what may be typed before the first place of a text in an open file."""
        document = types.TextDocumentIdentifier(path.as_uri())
        params = types.CompletionParams(document, self.position(path, at))
        found = await self.text_document_completion_async(params)
        return [item.label for item in found.items]

    async def act(self, path: Path, action: types.CodeAction) -> str:
        """Return the text of an open file after an action."""
        if action.edit is None:
            action = await self.code_action_resolve_async(action)
        edit = action.edit
        (changed,) = edit.document_changes
        assert changed.text_document.version == self._versions[path.as_uri()]
        text = self.text(path)
        lines = [0]
        for line in text.splitlines(keepends=True):
            lines.append(lines[-1] + len(line))

        def offset(place: types.Position) -> int:
            rest = text[lines[place.line] :].encode("utf-16-le")
            before = rest[: 2 * place.character].decode("utf-16-le")
            return lines[place.line] + len(before)

        edits = sorted(changed.edits, key=lambda e: e.range.start, reverse=True)
        for each in edits:
            start, end = offset(each.range.start), offset(each.range.end)
            text = text[:start] + each.new_text + text[end:]
        return text

    def position(self, path: Path, at: str) -> types.Position:
        """Return the first place of a text in an open file."""
        before = self.text(path)[: self.text(path).index(at)]
        line = before.rpartition("\n")[2]
        units = len(line.encode("utf-16-le")) // 2
        return types.Position(before.count("\n"), units)


def own_server() -> tuple[str, ...]:
    """Return the command of the server; its coverage counts where that is measured."""
    module = ("-m", "fp8tune", "lsp")
    coverage = sys.modules.get("coverage")
    measured = coverage and coverage.Coverage.current()
    if not measured:
        return sys.executable, *module
    options = f"--rcfile={ROOT / 'pyproject.toml'}", "--parallel-mode"
    file = f"--data-file={os.path.abspath(measured.config.data_file)}"
    return sys.executable, "-m", "coverage", "run", *options, file, *module


@asynccontextmanager
async def session(folder: Path, *command: str) -> AsyncIterator[Client]:
    """Yield a client of a server that is started in a folder."""
    client = Client()
    await client.start_io(*(command or own_server()))
    resolves = types.ClientCodeActionResolveOptions(["edit"])
    capabilities = types.ClientCapabilities(
        types.WorkspaceClientCapabilities(
            workspace_edit=types.WorkspaceEditClientCapabilities(document_changes=True),
            did_change_watched_files=types.DidChangeWatchedFilesClientCapabilities(
                dynamic_registration=True
            ),
        ),
        types.TextDocumentClientCapabilities(
            code_action=types.CodeActionClientCapabilities(resolve_support=resolves)
        ),
    )
    async with asyncio.timeout(PATIENCE):
        await client.initialize_async(
            types.InitializeParams(capabilities, root_uri=folder.as_uri())
        )
        client.initialized(types.InitializedParams())
    try:
        yield client
    finally:
        async with asyncio.timeout(PATIENCE):
            await client.shutdown_async(None)
            client.exit(None)
            await client.stop()
        assert client.ended == (0, ""), client.ended


def in_session(
    folder: Path, talk: Callable[[Client], Coroutine[Any, Any, Any]], *command: str
) -> Any:
    """Return what comes of a talk with a server that is started in a folder."""

    async def whole() -> Any:
        async with session(folder, *command) as client:
            return await talk(client)

    return asyncio.run(whole())
