"""What a broker pays for watching itself, in instructions of the processor.

Two brokers serve the same requests: ours, and a copy of it out of whose hot paths everything is cut
that counts or times.  Their instructions are counted by Valgrind, so that the difference of a tenth
of a percent can be seen, on a busy machine, too.  The kernel's are not among them: beside these,
the share would be smaller.

What is cut out is found in the source, by the names of the meters, and shown above the table.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from bench.metered import DEPTH, PATHS
from bench.report import aligned
from ottla.twins import CHOSEN

TARGET_PERCENT = 1.0
COUNTED = ("session.py", "partition.py", "handlers/fetch.py")
"""The modules of the broker in which every request is counted."""
BYTE_COUNTS = {"appended_bytes", "fetched_bytes"}
WARM = {"produce one record": 640, "fetch one record": 640, "produce 1 MB": 10, "fetch 1 MB": 10}
MORE = {"produce one record": 3200, "fetch one record": 3200, "produce 1 MB": 80, "fetch 1 MB": 960}
"""Of each path so many that a chore of the broker, which comes by the clock, is not seen there."""
_INSTRUCTIONS = re.compile(r"^summary: (\d+)", re.MULTILINE)


class _Cutter(ast.NodeTransformer):
    """Takes the statements out that count; what was there before the first request stays."""

    def __init__(self) -> None:
        self.cut: list[str] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node if node.name == "__init__" else self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        return self._without(node, {"_untimed_counts"})

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST | None:
        return self._without(node, BYTE_COUNTS)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return self._without(node, {"_meters"})

    def visit_If(self, node: ast.If) -> ast.AST | None:
        is_only_that = all(isinstance(inside, ast.Expr) for inside in node.body) and not node.orelse
        if is_only_that and all(_names(inside) & {"_meters"} for inside in node.body):
            return self._without(node, {"_meters"})
        return self.generic_visit(node)

    def _without(self, node: ast.stmt, names: set[str]) -> ast.AST | None:
        if not _names(node) & names:
            return self.generic_visit(node)
        self.cut.append(ast.unparse(node))
        return None


def _names(node: ast.AST) -> set[str]:
    """The attributes that a statement speaks of."""
    return {inside.attr for inside in ast.walk(node) if isinstance(inside, ast.Attribute)}


def cut_copy(folder: Path, *, is_cut: bool) -> list[str]:
    """Our package in `folder`, with or without what counts: what was cut out.

    Both are written by the same hand, so that they differ in that alone.
    """
    import ottla

    source = Path(ottla.__file__).parent
    shutil.copytree(source, folder / "ottla", ignore=shutil.ignore_patterns("__pycache__"))
    cut = []
    for name in COUNTED:
        path = folder / "ottla" / "broker" / name
        tree, cutter = ast.parse(path.read_text()), _Cutter()
        if is_cut:
            tree = cutter.visit(tree)
        path.write_text(ast.unparse(tree))
        cut += cutter.cut
    return cut


def instructions(folder: Path, counts: dict[str, int]) -> int:
    """How many the broker in `folder` takes for so many requests, and for all else."""
    out = folder / ("-".join(str(count) for count in counts.values()) + ".callgrind")
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "-q"]
    command += [sys.executable, "-m", "bench.metered"]
    command += [f"{path}={count}" for path, count in counts.items()]
    here = Path(__file__).parent.parent
    environment = {**os.environ, "PYTHONPATH": f"{folder}:{here}", "PYTHONHASHSEED": "0"}
    subprocess.run(command, env=environment, check=True, capture_output=True, cwd=folder)
    found = _INSTRUCTIONS.search(out.read_text())
    assert found is not None, "valgrind has written no summary"
    return int(found[1])


def per_request(folder: Path) -> dict[str, float]:
    """What one more request of each path takes, when all that is done once is done."""
    works = [WARM, *({**WARM, path: WARM[path] + MORE[path]} for path in PATHS)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # instructions are the same side by side
        base, *more = pool.map(partial(instructions, folder), works)
    return {path: (count - base) / MORE[path] for path, count in zip(PATHS, more, strict=True)}


def tables() -> list[str]:
    """The table."""
    if shutil.which("valgrind") is None:
        return ["Not run: Valgrind is not installed."]
    with tempfile.TemporaryDirectory(prefix="ottla-cut-") as place:
        counting, cut = Path(place, "counting"), Path(place, "cut")
        for folder in (counting, cut):
            folder.mkdir()
        cut_copy(counting, is_cut=False)
        taken_out = cut_copy(cut, is_cut=True)
        ours, bare = per_request(counting), per_request(cut)
    heading = ("a request to", "instructions", "of these to count and time", "target", "")
    rows: list[tuple[str, ...]] = [heading]
    for path in PATHS:
        percent = (ours[path] - bare[path]) / ours[path] * 100
        rows.append(
            (
                path,
                f"{ours[path]:,.0f}",
                f"**{percent:.2f} %**",
                f"{TARGET_PERCENT:g} %",
                "met" if percent <= TARGET_PERCENT else "missed",
            )
        )
    return [
        f"In user space, counted by Valgrind; {CHOSEN['wire']} twins; {DEPTH} small requests arrive"
        " together. Taken out for comparison: "
        + "; ".join(f"`{' '.join(statement.split())}`" for statement in taken_out)
        + ".",
        "",
        *aligned(rows),
    ]
