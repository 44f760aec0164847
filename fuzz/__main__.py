"""`python -m fuzz`: fuzz all targets, or some, and fail if one of them does."""

import argparse
import sys
from importlib import import_module
from pathlib import Path

from fuzz.runner import CORPUS, TARGETS, Effort, module_of, run, why_not

_FAILED = 1
_NOT_HERE = 2


def main() -> int:
    """Do as the arguments say; 1 if a target failed, 2 if fuzzing is not possible here."""
    arguments = _parser().parse_args()
    if arguments.reproduce is not None:
        return _reproduce(arguments.target, arguments.reproduce)
    if (reason := why_not()) is not None:
        print(reason, file=sys.stderr)
        return _NOT_HERE
    effort = Effort(seconds=arguments.seconds, seed=arguments.seed)
    results = [_fuzz(target, effort) for target in arguments.target or TARGETS]
    return 0 if all(results) else _FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument(
        "--target", choices=TARGETS, action="append", help="may be given several times"
    )
    parser.add_argument("--seconds", type=int, default=30, help="for each target")
    parser.add_argument("--seed", type=int, default=0, help="0: another one each time")
    parser.add_argument(
        "--reproduce", type=Path, metavar="FILE", help="run one --target on one saved input"
    )
    return parser


def _fuzz(target: str, effort: Effort) -> bool:
    result = run(module_of(target), effort, CORPUS / target)
    if not result.is_failure:
        print(f"{target}: {result.executions} executions, nothing found", flush=True)
        return True
    print(result.output, file=sys.stderr)
    print(f"{target}: FAILED; to see it again:", file=sys.stderr)
    print(f"  python -m fuzz --target {target} --reproduce {result.reproducer}", file=sys.stderr)
    return False


def _reproduce(targets: list[str] | None, file: Path) -> int:
    if targets is None or len(targets) != 1:
        print("--reproduce needs exactly one --target", file=sys.stderr)
        return _FAILED
    import_module(module_of(targets[0])).one_input(file.read_bytes())
    print(f"{targets[0]}: nothing is wrong with {file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
