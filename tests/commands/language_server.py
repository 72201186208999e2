"""A client of a language server over its standard input and output."""

import json
import subprocess
import threading

LONGEST = 120
"""Seconds after which a server that says nothing is ended, so that the test fails."""


class Client:
    """One server for the files of a folder."""

    def __init__(self, command, folder):
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.end = threading.Timer(LONGEST, self.process.kill)
        self.end.start()
        self.count = 0
        root = {"uri": folder.as_uri(), "name": folder.name}
        formats = {"documentationFormat": ["markdown"]}
        abilities = {"completion": {"completionItem": formats}, "diagnostic": {}}
        self.request(
            "initialize",
            processId=None,
            rootUri=root["uri"],
            workspaceFolders=[root],
            capabilities={"textDocument": abilities},
        )
        self.send(method="initialized", params={})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end.cancel()
        self.process.kill()
        self.process.communicate()

    def send(self, **message):
        data = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
        self.process.stdin.flush()

    def receive(self):
        length = 0
        while header := self.process.stdout.readline().strip():
            name, _, value = header.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        assert length, "the server has ended"
        return json.loads(self.process.stdout.read(length))

    def receive_until(self, wanted):
        """Return the first message that is wanted; answer what the server asks."""
        while True:
            message = self.receive()
            if "method" in message and "id" in message:
                self.send(id=message["id"], result=None)
            elif wanted(message):
                return message

    def request(self, method, **params):
        self.count += 1
        self.send(id=self.count, method=method, params=params)
        return self.receive_until(lambda m: m.get("id") == self.count)["result"]

    def open(self, path):
        """Open a file that has problems, and wait until the server has found them."""
        document = {"uri": path.as_uri(), "languageId": "toml", "version": 1}
        text = path.read_text(encoding="utf-8")
        self.send(
            method="textDocument/didOpen",
            params={"textDocument": {**document, "text": text}},
        )
        self.receive_until(
            lambda m: m.get("method") == "textDocument/publishDiagnostics"
        )

    def complete(self, path, line, column):
        """Return the labels offered at a place, which counts from 1."""
        found = self.request(
            "textDocument/completion",
            textDocument={"uri": path.as_uri()},
            position={"line": line - 1, "character": column - 1},
        )
        items = found["items"] if isinstance(found, dict) else found or []
        return {item["label"]: json.dumps(item) for item in items}

    def problems(self, path):
        """Return the lines with problems, and their messages."""
        found = self.request(
            "textDocument/diagnostic", textDocument={"uri": path.as_uri()}
        )
        return [
            (item["range"]["start"]["line"] + 1, item["message"])
            for item in found["items"]
        ]
