"""The four top-level folders are one package: the list, the mapping and the links of docs/decisions/0001-layout.md agree.

And no file needs one that needs it (docs/decisions/0024-rooms.md).
"""

import ast
import os
import re
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("autotune", "codegen", "schedules")
METHODS = {
    "tensorlang.ir.nodes": ("tensorlang.ir.printer",),
    "tensorlang.definition.tensor": ("tensorlang.definition.listing",),
    "tensorlang.kernels.sequences": ("tensorlang.kernels.bundles",),
    "tensorlang.graph.ir": ("tensorlang.graph",),
    "tensorlang.graph.pattern.matches": ("tensorlang.graph.pattern",),
    "tensorlang.graph": ("tensorlang.bridges",),
}
"""Methods of values, and the front doors of a room, that call what stands on these values: imported when they are called."""


@pytest.fixture(scope="module")
def setuptools() -> Any:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)["tool"]["setuptools"]


def packages_on_disk() -> set[str]:
    """Every folder with Python files, by import name; a link counts as the folder it leads to."""
    found = set()
    for top, name in (("tensorlang", "tensorlang"), *((folder, f"tensorlang.{folder}") for folder in FOLDERS)):
        for folder, _, files in os.walk(ROOT / top):
            if any(file.endswith(".py") for file in files):
                below = Path(folder).relative_to(ROOT / top).parts
                found.add(".".join((name, *below)))
    return found


def test_the_list_of_packages_is_what_is_on_disk(setuptools: Any) -> None:
    assert set(setuptools["packages"]) == packages_on_disk()


def test_every_package_has_an_init_file(setuptools: Any) -> None:
    for name in setuptools["packages"]:
        assert (ROOT / name.replace(".", "/") / "__init__.py").is_file(), name


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_link_leads_where_the_mapping_does(setuptools: Any, folder: str) -> None:
    link = ROOT / "tensorlang" / folder
    assert setuptools["package-dir"][f"tensorlang.{folder}"] == folder
    assert link.is_symlink()
    assert link.readlink() == Path("..", folder)


def test_the_mapping_names_nothing_else(setuptools: Any) -> None:
    assert set(setuptools["package-dir"]) == {"tensorlang", *(f"tensorlang.{folder}" for folder in FOLDERS)}


def test_the_package_is_marked_as_typed() -> None:
    assert (ROOT / "tensorlang" / "py.typed").is_file()


def test_files_that_are_not_python_are_package_data(setuptools: Any) -> None:
    """A wheel has no others, and a template that is missing would be missed only by who installed one."""
    folders = {name: ROOT / name.replace(".", "/") for name in setuptools["packages"]}
    listed = {path for name, patterns in setuptools["package-data"].items() for each in patterns for path in folders[name].glob(each)}
    found = set()
    for top in ("tensorlang", *(f"tensorlang/{folder}" for folder in FOLDERS)):
        for folder, _, files in os.walk(ROOT / top):
            found |= {Path(folder, file) for file in files if not file.endswith((".py", ".pyc"))}
    assert found == listed


def test_each_test_of_an_extra_is_marked() -> None:
    """What the test command skips without torch, onnx, tvm-ffi and jax is selected by its mark where they are installed."""
    extra = "(torch|onnx|tvm_ffi|jax)"
    asks = re.compile(rf"""importorskip\(.{extra}|^ *(import|from) {extra}\b|^from tests\.models\.""", re.MULTILINE)
    files = [path for path in (ROOT / "tests").rglob("test_*.py") if asks.search(path.read_text())]
    assert len(files) > 8
    alone = re.compile(rf"^ +.*importorskip\(.{extra}", re.MULTILINE)  # the mark skips a test; this, at the top, a file
    assert [path.name for path in files if "pytest.mark.extras(" not in path.read_text() or alone.search(path.read_text())] == []


def imports(path: Path, own: str, modules: dict[str, Path]) -> Iterator[tuple[str, bool]]:
    """The modules that a file imports, wherever it does, and whether it does so on use; what types alone need does not count."""
    tree = ast.parse(path.read_text())
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    while waiting:
        node, late = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        late = late or isinstance(node, ast.FunctionDef)
        waiting += [(part, late) for part in ast.iter_child_nodes(node)]
        names = [alias.name for alias in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{name}" if f"{node.module}.{name}" in modules else str(node.module) for name in names]
        yield from ((name, late) for name in names if name in modules and name not in (own, "tensorlang"))


def test_no_file_needs_one_that_needs_it() -> None:
    """Whether imported at once or on use: but for the facade, which offers everything, and the methods above."""
    paths: dict[str, Path] = {}
    for package in packages_on_disk():
        folder = ROOT / package.replace(".", "/")
        paths |= {package if path.stem == "__init__" else f"{package}.{path.stem}": path for path in folder.glob("*.py")}
    needed: dict[str, set[str]] = {}
    methods = set()
    for module, path in paths.items():
        found = set(imports(path, module, paths))
        up = {(name, late) for name, late in found if late and name.startswith(METHODS.get(module, ("?",)))}
        methods |= {module} if up else set()
        needed[module] = {name for name, late in found - up}
    assert len(paths) > 500
    assert methods == METHODS.keys()
    list(TopologicalSorter(needed).static_order())  # raises `CycleError`, which names the files
