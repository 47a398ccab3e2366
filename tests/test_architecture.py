"""What the whole source keeps to: layers, light imports, sizes, docstrings that match signatures."""

import ast
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import wirezip

ROOT = Path(wirezip.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
TREES = {path: ast.parse(path.read_text()) for path in FILES}

# From the top down. A unit imports itself and what stands in lower layers, never a neighbour.
LAYERS: list[set[str]] = [
    {"cli", "__main__"},
    {"bench"},
    {"__init__", "api", "distributed", "files", "doctor"},
    {"policy"},
    {"collectives"},
    {"transfer"},
    {"codecs", "comm"},
    {"frame", "checksum", "floats", "errors", "settings", "version"},
]
LEVEL = {unit: level for level, units in enumerate(LAYERS) for unit in units}
# Each of these only opens the door to the other.
NEIGHBOURS = {("__init__", "api"), ("__main__", "cli")}

MAX_FILE_LINES = 400
MAX_MEDIAN_LINES = 150
MAX_FUNCTION_LINES = 50
MAX_KERNEL_LINES = 80
MAX_POSITIONAL = 5

# Settings have one reader; these touch variables that are not settings, or show them all.
ENVIRONMENT_USERS = {
    "settings.py": "reads the settings",
    "doctor/report.py": "shows what is set, known or not",
    "bench/environment.py": "records what is set beside the results",
    "bench/launch.py": "tells gloo its interface",
}
NOT_LOADED_BY_PACKAGE = ("torch", "numpy", "numba", "triton", "mpi4py", "matplotlib", "rich", "typer", "pydantic")
NOT_LOADED_BY_API = ("numba", "triton", "mpi4py", "matplotlib", "rich", "typer", "pydantic", "numcodecs")
# Importing is to add at most 0.3 s to importing torch; three times that, because machines may be busy.
MAX_IMPORT_S = 0.9

every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))


def unit_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_modules(path: Path) -> Iterator[str]:
    """Yield the wirezip modules that a file imports anywhere, as dotted names."""
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}:{node.lineno}: imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def functions(path: Path) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(TREES[path]) if isinstance(node, ast.FunctionDef))


def is_compiled(function: ast.FunctionDef) -> bool:
    """Return whether Numba or Triton compiles a function, or it stands for one that they do."""
    decorators = {ast.unparse(node).split("(")[0] for node in function.decorator_list}
    return bool(decorators & {"jit", "inlined", "intrinsic", "overload", "triton.jit"})


def positional(function: ast.FunctionDef) -> list[str]:
    names = [argument.arg for argument in function.args.posonlyargs + function.args.args]
    return names[1:] if names[:1] in (["self"], ["cls"]) else names


def test_the_scan_finds_the_package():
    assert len(FILES) > 50
    assert {unit_of(path) for path in FILES} <= set(LEVEL), "a unit that no layer lists"


@every_file
def test_imports_point_downwards(path):
    own = unit_of(path)
    for module in imported_modules(path):
        package, *rest = module.split(".")
        if package != "wirezip":
            continue
        unit = rest[0] if rest and rest[0] in LEVEL else "__init__"
        base = LEVEL[own] == LEVEL[unit] == len(LAYERS) - 1
        allowed = own == unit or LEVEL[own] < LEVEL[unit] or base or (own, unit) in NEIGHBOURS
        assert allowed, f"{path.relative_to(ROOT)} ({own}) imports {module} ({unit})"


def loaded_by(code: str) -> list[str]:
    """Return what a fresh interpreter prints as the last line of some code."""
    path = os.pathsep.join(filter(None, [str(ROOT.parent), os.environ.get("PYTHONPATH")]))
    environ = {key: value for key, value in os.environ.items() if not key.startswith("COV_")}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**environ, "PYTHONPATH": path}
    )
    return done.stdout.split()


def test_importing_the_package_loads_nothing_else():
    loaded = loaded_by("import sys, wirezip; wirezip.__version__; dir(wirezip); print(*sys.modules)")
    assert not set(NOT_LOADED_BY_PACKAGE) & set(loaded)


def test_using_its_names_loads_torch_and_nothing_heavy():
    loaded = loaded_by("import sys, wirezip; wirezip.compress, wirezip.codecs.names(); print(*sys.modules)")
    assert "wirezip.codecs.framed" in loaded
    # torch may load some of them itself.
    with_torch = loaded_by("import sys, torch; print(*sys.modules)")
    assert not (set(NOT_LOADED_BY_API) - set(with_torch)) & set(loaded)


def test_importing_starts_nothing():
    code = "import os, wirezip, wirezip.api, wirezip.distributed, torch, threading; "
    code += "print(threading.active_count(), torch.cuda.is_initialized(), torch.distributed.is_initialized())"
    assert loaded_by(code) == ["1", "False", "False"]


def test_importing_adds_little_to_importing_torch():
    code = (
        "import time, torch; start = time.perf_counter(); import wirezip; wirezip.compress, wirezip.codecs.names(); "
        "print(time.perf_counter() - start)"
    )
    assert min(float(loaded_by(code)[0]) for _ in range(3)) <= MAX_IMPORT_S


def test_one_reader_of_the_environment():
    users = set()
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            text = ast.unparse(node) if isinstance(node, ast.Attribute | ast.ImportFrom | ast.Name) else ""
            if re.fullmatch(r"os\.(environ|environb|getenv|putenv|unsetenv)|from os import .*env.*|getenv", text):
                users.add(path.relative_to(ROOT).as_posix())
    assert users == set(ENVIRONMENT_USERS)


@every_file
def test_files_are_short(path):
    assert len(path.read_text().splitlines()) <= MAX_FILE_LINES


def test_the_median_file_is_short():
    assert statistics.median(len(path.read_text().splitlines()) for path in FILES) <= MAX_MEDIAN_LINES


@every_file
def test_functions_are_short(path):
    most = MAX_KERNEL_LINES if path.name.startswith("kernels") else MAX_FUNCTION_LINES
    for function in functions(path):
        lines = function.end_lineno - function.lineno + 1
        assert lines <= most, f"{path.relative_to(ROOT)}: {function.name} has {lines} lines, at most {most}"


@every_file
def test_functions_take_few_positional_arguments(path):
    # What is compiled takes arrays one by one; commands are called by the parser, by name.
    for function in functions(path):
        if is_compiled(function) or (unit_of(path) == "cli" and "typer." in ast.unparse(function.args)):
            continue
        names = positional(function)
        assert len(names) <= MAX_POSITIONAL, f"{path.relative_to(ROOT)}: {function.name}({', '.join(names)})"


def documented_arguments(docstring: str) -> list[str] | None:
    """Return the names that the `Args:` section of a docstring describes, or None without one."""
    section = re.search(r"^Args:\n((?: {4}.*\n?|\n)*)", docstring, re.MULTILINE)
    if section is None:
        return None
    return [name.lstrip("*") for name in re.findall(r"^ {4}(\*{0,2}\w+)(?: \(.*?\))?:", section[1], re.MULTILINE)]


def signature(function: ast.FunctionDef) -> list[str]:
    arguments = function.args
    extra = [one.arg for one in (arguments.vararg, arguments.kwarg) if one]
    return positional(function) + extra[:1] + [one.arg for one in arguments.kwonlyargs] + extra[1:]


def same_arguments(documented: list[str], function: ast.FunctionDef) -> bool:
    return sorted(documented) == sorted(signature(function))


@every_file
def test_docstrings_describe_the_arguments_there_are(path):
    for function in functions(path):
        documented = documented_arguments(ast.get_docstring(function) or "")
        if documented is not None:
            text = f"{path.relative_to(ROOT)}: {function.name} documents {documented}, takes {signature(function)}"
            assert same_arguments(documented, function), text


@every_file
def test_public_things_are_described(path):
    nodes = [TREES[path], *TREES[path].body]
    classes = [node for node in nodes if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    nodes += [member for node in classes for member in node.body]
    for node in nodes:
        if isinstance(node, ast.Module):
            assert ast.get_docstring(node) or path.stat().st_size == 0, f"{path.relative_to(ROOT)} says nothing"
        elif isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            assert ast.get_docstring(node), f"{path.relative_to(ROOT)}: {node.name} has no docstring"


@every_file
def test_names_say_what_things_are(path):
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.ClassDef):
            assert not re.search(r"Manager|Helper|Util", node.name), f"{path.relative_to(ROOT)}: {node.name}"
    assert not re.search(r"helper|util|misc|common", path.stem), path.relative_to(ROOT)


def test_docstring_check_sees_faults():
    make = "def f(a, b=1, *rest, c, **more):\n    '''Do.\n\n    Args:\n{}    '''"
    for lines, fits in (
        (["a: One.", "b: Two.", "*rest: More.", "c: Three.", "**more: Others."], True),
        (["a: One.", "b: Two.", "rest: More.", "c: Three.", "more: Others."], True),
        (["a: One.", "b: Two.", "rest: More.", "c: Three."], False),
        (["a: One.", "b: Two.", "rest: More.", "c: Three.", "more: Others.", "d: None such."], False),
        (["a: One.", "x: Two.", "rest: More.", "c: Three.", "more: Others."], False),
    ):
        function = ast.parse(make.format("".join(f"        {line}\n" for line in lines))).body[0]
        documented = documented_arguments(ast.get_docstring(function))
        assert same_arguments(documented, function) == fits, lines
