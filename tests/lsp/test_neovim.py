"""The lines of the guide in a headless Neovim, where there is one from 0.11 on."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lsp.test_server import CONFIG, TP

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "editors.md"
TALK = """
local seen = {}
local function codes()
  return vim.tbl_map(function(each) return each.code end, vim.diagnostic.get(0))
end
local function ask(method, more)
  local params = vim.tbl_extend("force", {
    textDocument = { uri = vim.uri_from_bufnr(0) },
    position = { line = 13, character = 1 },
  }, more or {})
  local answers = vim.lsp.buf_request_sync(0, method, params, 20000)
  for _, each in pairs(answers or {}) do return each.result end
end
vim.wait(20000, function() return #codes() > 0 end)
seen.opened = codes()
local place = { line = 13, character = 5 }
local range = { start = place, ["end"] = place }
local actions = ask("textDocument/codeAction", {
  range = range,
  context = { diagnostics = {} },
})
seen.actions = vim.tbl_map(function(each) return each.title end, actions)
seen.hover = vim.split(ask("textDocument/hover").contents.value, "\\n")[1]
local blank = { position = { line = 11, character = 0 } }
seen.completed = #ask("textDocument/completion", blank).items > 0
vim.lsp.util.apply_workspace_edit(actions[1].edit, "utf-16")
seen.line = vim.api.nvim_buf_get_lines(0, 13, 14, true)[1]
vim.wait(20000, function() return #codes() == 0 end)
seen.fixed = codes()
io.stdout:write(vim.json.encode(seen))
vim.cmd("qall!")
"""


def nvim():
    """Return the path of a Neovim with ``vim.lsp.config``; ``""`` without one."""
    path = shutil.which("nvim") or ""
    if path:
        said = subprocess.run([path, "--version"], capture_output=True, text=True)
        version = re.match(r"NVIM v0\.(\d+)", said.stdout)
        path = path if version and int(version[1]) >= 11 else ""
    return path


@pytest.mark.skipif(not nvim(), reason="no Neovim from 0.11 on")
def test_the_guide_is_enough_for_neovim(tmp_path):
    (settings,) = re.findall(r"```lua\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (tmp_path / "init.lua").write_text(settings)
    (tmp_path / "talk.lua").write_text(TALK)
    (tmp_path / "train.toml").write_text(CONFIG)
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    opened = [nvim(), "--headless", "-u", "init.lua", "train.toml"]
    ended = subprocess.run(
        [*opened, "-c", "luafile talk.lua"],
        cwd=tmp_path,
        env={**os.environ, "PATH": programs, "XDG_STATE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert json.loads(ended.stdout) == {
        "opened": [TP],
        "actions": [
            "fp8tune: set `distributed.tp = 1` (changes the run: FSDP uses the GPUs of "
            "tensor parallelism: 4 x more sequences per step, and whole layers on each "
            "GPU)",
            f"fp8tune: ignore `{TP}` here",
        ],
        "hover": "**`distributed.tp`** (KempnerForge)",
        "completed": True,
        "line": "tp = 1",
        "fixed": [],
    }, ended.stderr
