// What taplo's language server offers in a config, as VS Code's Even Better TOML runs it.
//
//   npm install @taplo/lsp@0.8 && node taplo.mjs FOLDER/train.toml LINE COLUMN
//
// Prints the completions at a place (from 1) and the problems of the file. The `taplo`
// that pip installs has no language server.
import taplo from "@taplo/lsp";
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const [file, line, column] = process.argv.slice(2);
const folder = path.dirname(path.resolve(file));
const document = { uri: pathToFileURL(path.resolve(file)).href };
const root = pathToFileURL(folder).href;
const waiting = {};
let count = 0;
let problems = [];
let server;

function receive(message) {
  if (message.method && message.id !== undefined) {
    const items = message.params?.items?.map(() => ({})) ?? null;
    server.send({ jsonrpc: "2.0", id: message.id, result: items });
  } else if (message.method === "textDocument/publishDiagnostics") {
    problems = message.params.diagnostics;
  } else if (waiting[message.id]) {
    waiting[message.id](message.result);
  }
}

function request(method, params) {
  count += 1;
  server.send({ jsonrpc: "2.0", id: count, method, params });
  return new Promise((resolve) => (waiting[count] = resolve));
}

server = await taplo.TaploLsp.initialize(
  {
    cwd: () => folder,
    envVar: () => "",
    envVars: () => [],
    fetch: { fetch, Headers, Request, Response },
    findConfigFile: (from) =>
      [".taplo.toml", "taplo.toml"]
        .map((name) => path.join(from, name))
        .find((name) => fs.existsSync(name)),
    glob: () => [],
    isAbsolute: path.isAbsolute,
    now: () => new Date(),
    readFile: (name) => fs.promises.readFile(name),
    writeFile: async () => {},
    stdErrAtty: () => false,
    stdin: async () => new Uint8Array(),
    stdout: async (bytes) => bytes.length,
    stderr: async (bytes) => bytes.length,
    urlToFilePath: (url) =>
      url.startsWith("file:") ? fileURLToPath(url) : new URL(url).pathname,
  },
  { onMessage: receive },
);
await request("initialize", {
  processId: null,
  rootUri: root,
  workspaceFolders: [{ uri: root, name: "configs" }],
  capabilities: {},
  initializationOptions: { configuration: { schema: { enabled: true, catalogs: [] } } },
});
server.send({ jsonrpc: "2.0", method: "initialized", params: {} });
const text = fs.readFileSync(file, "utf8");
const opened = { ...document, languageId: "toml", version: 1, text };
server.send({
  jsonrpc: "2.0",
  method: "textDocument/didOpen",
  params: { textDocument: opened },
});
await new Promise((resolve) => setTimeout(resolve, 2000)); // it reads the schema
const position = { line: line - 1, character: column - 1 };
const found = await request("textDocument/completion", { textDocument: document, position });
for (const item of found?.items ?? found ?? [])
  console.log(`${item.label}: ${item.documentation?.value ?? ""}`);
for (const each of problems)
  console.log(`line ${each.range.start.line + 1}: ${each.message}`);
process.exit(0);
