"""The repository's laws: each a pure function from a tree of files to its violations, in words."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

MAX_MODULE_LINES = 500
MAX_TEST_MODULE_LINES = 800
MAX_FUNCTION_LINES = 70
BANNED_NAMES = frozenset({"util", "utils", "helper", "helpers", "common", "manager", "misc"})
FOREIGN_LOCKS = frozenset(
    {"uv.lock", "poetry.lock", "Pipfile.lock", "pdm.lock", "package-lock.json", "yarn.lock"}
)
# Written in two halves, so that this file keeps its own law.
MACHINE_WORDS = (
    *(f"/{folder}/" for folder in ("work", "root", "Users")),
    "py" + "pi.org",
    "python" + "hosted.org",
    "deb." + "debian.org",
    "registry." + "npmjs.org",
)
SLEEPERS = frozenset({"sleep"})


@dataclass(frozen=True)
class Tree:
    """A set of text files by their path from the root of the repository."""

    files: Mapping[str, str]

    def under(self, *folders: str) -> Iterator[tuple[str, str]]:
        """The Python modules below these folders, with their text."""
        for path, text in self.files.items():
            if path.endswith(".py") and path.startswith(tuple(f"{f}/" for f in folders)):
                yield path, text

    @cached_property
    def parsed(self) -> dict[str, ast.Module]:
        """Every Python module's syntax tree."""
        return {
            path: ast.parse(text, path) for path, text in self.files.items() if path.endswith(".py")
        }


def repository(root: Path) -> Tree:
    """The text files that git tracks, or would track, in a checkout."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        check=True,
    ).stdout.decode()
    files = {}
    for name in listed.split("\0"):
        path = root / name
        if name and path.is_file() and not path.is_symlink():
            raw = path.read_bytes()
            if b"\0" not in raw:
                files[name] = raw.decode()
    return Tree(files)


def functions(module: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method of a module, nested ones too."""
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def long_modules(tree: Tree) -> list[str]:
    """A module has one subject: at most 500 lines, a test module 800."""
    broken = []
    for path, text in tree.under("gateway", "tests", "scripts", "bench"):
        limit = MAX_TEST_MODULE_LINES if path.startswith("tests/") else MAX_MODULE_LINES
        lines = len(text.splitlines())
        if lines > limit:
            broken.append(f"{path}: {lines} lines, at most {limit}: split it by what it is about")
    return broken


def long_functions(tree: Tree) -> list[str]:
    """A function is read at one glance: at most 70 lines, from its def to its last."""
    broken = []
    for path, module in tree.parsed.items():
        for function in functions(module):
            lines = (function.end_lineno or 0) - function.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                broken.append(
                    f"{path}:{function.lineno}: {function.name} has {lines} lines, "
                    f"at most {MAX_FUNCTION_LINES}: name its steps"
                )
    return broken


def banned_names(tree: Tree) -> list[str]:
    """A module is named after the noun it owns; `utils` and its kin own none."""
    return [
        f"{path}: '{part}' says nothing: name what it owns"
        for path in tree.files
        if path.endswith(".py")
        for part in PurePosixPath(path).with_suffix("").parts
        if BANNED_NAMES & set(part.split("_"))
    ]


def undescribed_packages(tree: Tree) -> list[str]:
    """Every folder of the package says in its __init__ what it is for."""
    modules = (PurePosixPath(path) for path, _ in tree.under("gateway"))
    folders = {str(folder) for module in modules for folder in module.parents} - {"."}
    broken = []
    for folder in sorted(folders):
        module = tree.parsed.get(f"{folder}/__init__.py")
        if module is None or not ast.get_docstring(module):
            broken.append(f"{folder}: needs an __init__.py whose docstring says what it is for")
    return broken


def machine_words(tree: Tree) -> list[str]:
    """Nothing names a path of one machine or the address of a registry."""
    return [
        f"{path}:{number}: names '{word}'"
        for path, text in tree.files.items()
        for number, line in enumerate(text.splitlines(), 1)
        for word in MACHINE_WORDS
        if word in line
    ]


def foreign_locks(tree: Tree) -> list[str]:
    """The lock is requirements/*.txt; another tool's lock would drift from it."""
    return [
        f"{path}: dependencies are locked in requirements/ alone"
        for path in tree.files
        if PurePosixPath(path).name in FOREIGN_LOCKS
    ]


def is_test_module(path: str) -> bool:
    """Whether pytest collects this module."""
    return path.startswith("tests/") and PurePosixPath(path).name.startswith("test_")


def lawless_tests(tree: Tree) -> list[str]:
    """A test's docstring is the law that it proves."""
    return [
        f"{path}:{function.lineno}: {function.name} does not say which law it proves"
        for path, module in tree.parsed.items()
        if is_test_module(path)
        for function in functions(module)
        if function.name.startswith("test_") and not ast.get_docstring(function)
    ]


def sleeping_tests(tree: Tree) -> list[str]:
    """A test waits for an event with a deadline: only polls, in a loop, and stand-ins may pause.

    A stand-in is a class of the test's own: a store that stalls is the fault, not the waiting.
    """
    broken = []
    for path, module in tree.parsed.items():
        if is_test_module(path):
            excused = {id(call) for part in _pausing_parts(module) for call in _calls(part)}
            broken += [
                f"{path}:{call.lineno}: sleeps: wait for the event, with a deadline"
                for call in _calls(module)
                if id(call) not in excused and _sleeps(call)
            ]
    return broken


def _pausing_parts(module: ast.Module) -> Iterator[ast.AST]:
    """Loops, and classes that are not classes of tests."""
    for node in ast.walk(module):
        stand_in = isinstance(node, ast.ClassDef) and not node.name.startswith("Test")
        if stand_in or isinstance(node, ast.While):
            yield node


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    return (part for part in ast.walk(node) if isinstance(part, ast.Call))


def _sleeps(call: ast.Call) -> bool:
    """time.sleep or asyncio.sleep for longer than nothing (sleep(0) only yields)."""
    if not (isinstance(call.func, ast.Attribute) and call.func.attr in SLEEPERS):
        return False
    if not (isinstance(call.func.value, ast.Name) and call.func.value.id in {"time", "asyncio"}):
        return False
    yields = call.args and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0
    return not yields


def undocumented(kind: str, names: Iterable[str], reference: str) -> list[str]:
    """Every code, setting, metric and variable stands in docs/reference, in code marks."""
    marked = set(re.findall(r"[A-Za-z_][A-Za-z0-9_.]*", "\n".join(_code_spans(reference))))
    return [f"{kind} `{name}` is not in docs/reference" for name in names if name not in marked]


def _code_spans(text: str) -> list[str]:
    fenced = re.findall(r"^```.*?^```", text, re.MULTILINE | re.DOTALL)
    inline = re.findall(r"`([^`\n]+)`", text)
    return fenced + inline
