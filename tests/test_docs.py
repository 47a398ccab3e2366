"""Every snippet of the README and the pages under docs does what the page says it does.

The blocks of a page are taken from top to bottom, in an empty folder of their own:

- `python` is executed; all blocks of a page share one namespace.
- `console`: a line `$ wirezip ...` is run and must leave with 0; lines without `$` are output.
- `bash`: a line `wirezip ...` is run likewise.
- In both, `python -c ...` and the programs in `RUN_APART` run in a process of their own and must leave with 0;
  those in `NOT_RUN` are left alone; any other is an error.
- A comment `<!--python ... -->` is executed too; it sets up what the page need not show.
- `text` and the formats in `DATA` are not run. A fence without a language is an error.

One process stands for a group: `torch.distributed` finds a world of one rank.
"""

import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch.distributed as dist

from wirezip.cli import main

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
NOT_RUN = {"cd", "docker", "git", "make", "mpirun", "pip", "python", "python3", "source", "srun", "torchrun"}
RUN_APART = {"cmp", "ls"}
DATA = {"text", "json", "jsonc", "toml", "yaml", "c"}
BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<language>[^\n`]*)\n(?P<code>.*?)^ *```[ ]*$|^<!--python\n(?P<hidden>.*?)^-->",
    re.MULTILINE | re.DOTALL,
)


class SnippetError(Exception):
    """A snippet cannot be run, or does not do what it should."""


@dataclass(frozen=True)
class Block:
    """One block of a page; `line` is that of its first line of code."""

    language: str
    code: str
    line: int


def blocks(text: str) -> Iterator[Block]:
    for found in BLOCK.finditer(text):
        hidden = found["hidden"]
        code = found["code"] if hidden is None else hidden
        language = found["language"].strip() if hidden is None else "python"
        yield Block(language, textwrap.dedent(code), text.count("\n", 0, found.start()) + 2)


def commands(block: Block) -> Iterator[tuple[int, str]]:
    """Yield the commands of a block with their lines, continued lines joined."""
    pending, start = "", 0
    for number, line in enumerate(block.code.splitlines(), block.line):
        if not pending:
            if block.language == "console" and not line.startswith("$ "):
                continue
            line, start = line.removeprefix("$ "), number
        pending += line.removesuffix("\\")
        if not line.endswith("\\"):
            yield start, pending
            pending = ""
    if pending:
        raise SnippetError(f"line {start}: the command does not end")


def run_command(where: str, command: str) -> None:
    """Run a command of wirezip in this process, others as the top of this file says."""
    words = shlex.split(command, comments=True)
    while words and re.fullmatch(r"\w+=.*", words[0]):
        words = words[1:]
    if words[:2] in (["python", "-c"], ["python3", "-c"]):
        code = subprocess.run([sys.executable, *words[1:]]).returncode
    elif not words or words[0] in NOT_RUN or words[0].endswith("/bin/activate"):
        return
    elif words[0] in RUN_APART:
        code = subprocess.run(words).returncode
    elif words[0] == "wirezip":
        code = main(words[1:])
    else:
        raise SnippetError(f"{where}: {words[0]} is neither run here nor known as a program to leave alone")
    if code:
        raise SnippetError(f"{where}: {command} left with {code}")


def run_page(text: str, name: str) -> int:
    """Run all blocks of a page in the current folder; return how many were run."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    num_run = 0
    for block in blocks(text):
        where = f"{name}, line {block.line}"
        if block.language == "python":
            # The lines before are kept, so that a traceback names the line of the page.
            code = compile("\n" * (block.line - 1) + block.code, name, "exec")
            try:
                exec(code, namespace)
            except Exception as failure:
                raise SnippetError(f"{where}: {type(failure).__name__}: {failure}") from failure
        elif block.language in ("console", "bash"):
            for line, command in commands(block):
                run_command(f"{name}, line {line}", command)
        elif block.language in DATA:
            continue
        else:
            raise SnippetError(f"{where}: a block of {block.language or 'no language'}; see {Path(__file__).name}")
        num_run += 1
    return num_run


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, value in {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "RANK": "0", "WORLD_SIZE": "1"}.items():
        monkeypatch.setenv(name, value)
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_snippets_of(page):
    if not page.exists():
        pytest.skip(f"there is no {page.name}")
    run_page(page.read_text(), page.name)


def test_fences_are_all_seen():
    for page in PAGES:
        text = page.read_text() if page.exists() else ""
        fences = re.findall(r"^ *```", text, re.MULTILINE)
        seen = [found for found in BLOCK.finditer(text) if found["hidden"] is None]
        assert len(fences) == 2 * len(seen), f"{page.name} has a fence that is not closed"


PAGE = """
Intro.
<!--python
import numpy as np
np.save("x.npy", np.zeros(1000, np.float32))
-->
```python
size = 3
```
1. In a list:
   ```console
   $ wirezip compress x.npy \\
       x.wz --codec window
   x.npy: what it prints
   $ wirezip inspect x.wz  # look
   $ make bench
   ```
```bash
wirezip decompress x.wz y.npy
cmp x.npy y.npy
python -c "open('made', 'w')"
LANG=C wirezip codecs
pip install wirezip
```
```text
$ wirezip no-such-command
```
```python
assert size == 3 and open("made")
assert (np.load("y.npy") == np.load("x.npy")).all()
```
"""


def test_a_page_is_run_in_order(capsys):
    assert run_page(PAGE, "page") == 5
    assert "window" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("```python\nx = 1\n\nx / 0\n```\n", "page, line 2: ZeroDivisionError"),
        ("\n\n```python\nassert 1 == 2\n```\n", "page, line 4: AssertionError"),
        ("```python\nx = 1\n```\n```python\ny\n```\n", "page, line 5: NameError"),
        ("<!--python\nraise ValueError('hidden')\n-->\n", "page, line 2: ValueError: hidden"),
        ("```console\n$ wirezip inspect none.wz\n```\n", "page, line 2: wirezip inspect none.wz left with 1"),
        ("```console\nout\n$ wirezip no-such\n```\n", "page, line 3: wirezip no-such left with 2"),
        ("```bash\nwirezip compress\n```\n", "page, line 2: wirezip compress left with 2"),
        ("```bash\npython -c 'raise SystemExit(3)'\n```\n", "raise SystemExit(3)' left with 3"),
        ("```bash\ncmp none.a none.b\n```\n", "page, line 2: cmp none.a none.b left with 2"),
        ("```bash\ncurl example.org\n```\n", "curl is neither run here nor known"),
        ("```bash\nwirezip codecs \\\n```\n", "line 2: the command does not end"),
        ("```\nx\n```\n", "a block of no language"),
        ("```sh\nwirezip codecs\n```\n", "a block of sh"),
    ],
)
def test_faults_are_found(page, text):
    with pytest.raises(SnippetError, match=re.escape(text)):
        run_page(page, "page")


def test_a_world_of_one_rank():
    run_page(
        "```python\nimport torch, torch.distributed as dist\nimport wirezip.distributed as zdist\n"
        "dist.init_process_group('gloo')\nt = torch.ones(5000)\nzdist.all_reduce(t, codec='window')\n"
        "assert t.sum() == 5000\n```\n",
        "page",
    )
    assert dist.is_initialized()
