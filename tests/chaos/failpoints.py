"""A failpoint at every await of some modules, generated from their source.

Each `await x` becomes `reach(id), await x`: nothing is added to the product. In the gateway's
process the instrumented modules are compiled on import (`instrumented/sitecustomize.py`); a small
shared file arms one point at a time, and tells that it was reached.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import mmap
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

PACKAGE: Final = Path(__file__).parents[2]
CONTROL_VARIABLE: Final = "FAILPOINTS_CONTROL"
_SIZE: Final = 256
_IDLE, _ARMED, _REACHED = 0, 1, 2
_KILL, _STOP = 1, 2
_ASIDE = (".probe", ".reads", ".schema", ".tables", ".catalogue")  # no mutation passes there


def source_of(module: str) -> Path:
    """The file of a module or package of the product."""
    path = PACKAGE / Path(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


class _Instrument(ast.NodeTransformer):
    """Puts a call before each await; an id is module:function:number of the await in it."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._within: list[str] = []
        self._counts: dict[str, int] = {}
        self.points: list[str] = []

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._function(node)

    def _function(self, node: ast.AST) -> ast.AST:
        self._within.append(node.name)  # type: ignore[attr-defined]
        self.generic_visit(node)
        self._within.pop()
        return node

    def visit_Await(self, node: ast.Await) -> ast.AST:
        self.generic_visit(node)
        where = f"{self._module.removeprefix('gateway.')}:{'.'.join(self._within)}"
        self._counts[where] = number = self._counts.get(where, 0) + 1
        point = f"{where}:{number}"
        self.points.append(point)
        reach = ast.Call(ast.Name("__failpoint__", ast.Load()), [ast.Constant(point)], [])
        pair = ast.Tuple([reach, node], ast.Load())
        return ast.Subscript(pair, ast.Constant(1), ast.Load())


def points_of(modules: Sequence[str]) -> list[str]:
    """The points of some modules, in the order of the source."""
    found = []
    for module in modules:
        instrument = _Instrument(module)
        instrument.visit(ast.parse(source_of(module).read_text()))
        found += instrument.points
    return found


class Control:
    """The shared file: which point is armed, with what, and whether it was reached."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_SIZE))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _SIZE)

    def arm(self, point: str, *, kill: bool) -> None:
        """Hit the process that reaches this point next."""
        name = point.encode()
        self._map[2 : 3 + len(name)] = bytes([len(name)]) + name
        self._map[1] = _KILL if kill else _STOP
        self._map[0] = _ARMED

    def disarm(self) -> bool:
        """Hit nobody. Returns whether the point was reached."""
        reached = self.reached()
        self._map[0] = _IDLE
        return reached

    def reached(self) -> bool:
        """Whether the armed point was reached."""
        return self._map[0] == _REACHED

    def reach(self, point: str) -> None:
        """In the gateway: die or stand still, if this point is the armed one."""
        if self._map[0] != _ARMED:
            return
        length = self._map[2]
        if self._map[3 : 3 + length] != point.encode():
            return
        self._map[0] = _REACHED
        os.kill(os.getpid(), signal.SIGKILL if self._map[1] == _KILL else signal.SIGSTOP)


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles the instrumented source, and never takes what was compiled before."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        tree = _Instrument(fullname).visit(ast.parse(Path(path).read_text(), path))
        return compile(ast.fix_missing_locations(tree), path, "exec")


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, modules: Sequence[str], control: Control) -> None:
        self._modules = frozenset(modules)
        self._control = control

    def find_spec(
        self, fullname: str, path: Any = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        del target
        if fullname not in self._modules:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(fullname, spec.origin)
        return spec


def install(modules: Sequence[str], control: Control) -> None:
    """Instrument these modules when they are imported."""
    import builtins

    builtins.__failpoint__ = control.reach  # type: ignore[attr-defined]
    sys.meta_path.insert(0, _Finder(modules, control))


def between_admission_and_answer(store: str) -> list[str]:
    """The modules that a mutation passes from its decision to its answer, for a kind of store."""
    engine = ("pipeline", "fences", "replays", "retries", "unknowns", "desk", "holdback")
    return [
        *(f"gateway.engine.{name}" for name in engine),
        *(one for one in _modules(f"gateway.stores.{store}") if not one.endswith(_ASIDE)),
        *(_modules("gateway.upstream") if store == "s3" else ()),
    ]


def _modules(package: str) -> Iterator[str]:
    for path in sorted(source_of(package).parent.glob("*.py")):
        if path.stem != "__init__":
            yield f"{package}.{path.stem}"
