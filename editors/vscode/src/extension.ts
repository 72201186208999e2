// Starts `fp8tune lsp` and connects VS Code to it.

import * as fs from "node:fs";
import * as path from "node:path";
import { commands, ExtensionContext, window, workspace } from "vscode";
import { LanguageClient, ServerOptions } from "vscode-languageclient/node";

const LANGUAGES = ["toml", "yaml", "json", "jsonc", "shellscript"];

let client: LanguageClient | undefined;

export async function activate(context: ExtensionContext): Promise<void> {
  context.subscriptions.push(
    commands.registerCommand("fp8tune.restart", restart),
    workspace.onDidChangeConfiguration(async (event) => {
      if (event.affectsConfiguration("fp8tune.path")) {
        await restart();
      }
    }),
  );
  await start();
}

export async function deactivate(): Promise<void> {
  await client?.dispose();
  client = undefined;
}

async function restart(): Promise<void> {
  await deactivate();
  await start();
}

async function start(): Promise<void> {
  const command = program();
  const server: ServerOptions = { command, args: ["lsp"], options: { cwd: folder() } };
  client = new LanguageClient("fp8tune", "fp8tune", server, {
    documentSelector: LANGUAGES.flatMap((language) => [
      { scheme: "file", language },
      { scheme: "untitled", language },
    ]),
  });
  try {
    await client.start();
  } catch (error) {
    const how = "Install it with its extra lsp, and name it in the setting fp8tune.path";
    void window.showErrorMessage(`fp8tune lsp does not start. ${how} (now ${command}: ${error})`);
  }
}

// The first folder of the workspace.
function folder(): string | undefined {
  return workspace.workspaceFolders?.[0]?.uri.fsPath;
}

// The program of the setting, else that of a .venv in the workspace, else of the PATH.
function program(): string {
  const named = workspace.getConfiguration("fp8tune").get("path", "fp8tune");
  const root = folder() ?? "";
  if (named.includes("/") || named.includes(path.sep)) {
    return path.resolve(root, named.replace(/^~(?=\/)/, process.env["HOME"] ?? "~"));
  }
  const own = path.join(root, ".venv", "bin", named);
  return root && workspace.isTrusted && fs.existsSync(own) ? own : named;
}
