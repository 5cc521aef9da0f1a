"""`make fuzz`: atheris looks for new inputs that break a law, guided by the code that they reach.

Each law runs in a process of its own for the seconds given. What it found before is kept in a
corpus directory, and a next run starts from there. An input that breaks a law is written next to it
and told; the exit code is then 1.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

from hypothesis import Phase, given, settings

from tests.fuzz.mutations import QUIET, Bytes

_COUNT = re.compile(r"number_of_executed_units: (\d+)")
_COVER = re.compile(r"cov: (\d+)")
_SLOWEST_S = 10
_MOST_BYTES = 8192


def child(name: str, corpus: Path, seconds: int, seed: int) -> None:
    """Fuzz one law; libFuzzer ends the process."""
    import atheris

    with atheris.instrument_imports(include=["gateway", "h11"]):
        from tests.fuzz.laws import LAWS
    law = LAWS[name]
    corpus.mkdir(parents=True, exist_ok=True)
    seeds = [*law.corpus, *drawn(law.strategy, 500)]
    for number, data in enumerate(seeds):
        (corpus / f"seed-{number}").write_bytes(data)
    words = corpus.parent / f"{name}.dict"
    words.write_text("".join(f'"{escaped(word)}"\n' for word in law.words if word))

    def check(data: bytes) -> None:
        law.check(bytes(data))

    arguments = [
        sys.argv[0],
        str(corpus),
        f"-max_total_time={seconds}",
        f"-timeout={_SLOWEST_S}",
        f"-max_len={_MOST_BYTES}",
        f"-dict={words}",
        f"-artifact_prefix={corpus.parent}/broken-{name}-",
        f"-seed={seed}",
        "-print_final_stats=1",
    ]
    atheris.Setup(arguments, check)
    atheris.Fuzz()


def drawn(strategy: Bytes, count: int) -> list[bytes]:
    """Inputs that put pieces together as no single seed does."""
    found: list[bytes] = []
    bounded = settings(
        max_examples=count,
        database=None,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=QUIET,
    )

    def keep(data: bytes) -> None:
        found.append(data)

    bounded(given(strategy)(keep))()
    return found


def escaped(word: bytes) -> str:
    """A word of libFuzzer's dictionary."""
    return "".join(f"\\x{byte:02x}" for byte in word)


def explore(names: list[str], directory: Path, seconds: int, seed: int) -> int:
    """Fuzz the laws one after the other, and tell what was found."""
    directory.mkdir(parents=True, exist_ok=True)
    broken = 0
    print("| law | inputs | branches reached | verdict |\n|---|---|---|---|", flush=True)
    for name in names:
        log = directory / f"{name}.log"
        with log.open("w") as output:
            options = f"--child --seconds={seconds} --seed={seed}".split()
            code = subprocess.run(
                [sys.executable, "-m", __spec__.name, name, *options, "--directory", directory],
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            ).returncode
        text = log.read_text(errors="replace")
        counts, covers = _COUNT.findall(text), _COVER.findall(text)
        verdict = "holds" if code == 0 else f"BROKEN, see {log}"
        broken += code != 0
        inputs = int(counts[-1]) if counts else 0
        print(f"| {name} | {inputs:,} | {covers[-1] if covers else '?'} | {verdict} |", flush=True)
    return 1 if broken else 0


def main() -> int:
    """Read the command line."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("laws", nargs="*")
    options.add_argument("--seconds", type=int, default=60, help="for each law")
    options.add_argument("--seed", type=int, default=0, help="0 takes another one each time")
    options.add_argument("--directory", type=Path, default=Path(".fuzz"))
    options.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.child:
        name = chosen.laws[0]
        child(name, chosen.directory / name, chosen.seconds, chosen.seed)
        return 0
    from tests.fuzz.laws import LAWS

    unknown = [name for name in chosen.laws if name not in LAWS]
    if unknown:
        options.error(f"no such law: {', '.join(unknown)}; there are {', '.join(LAWS)}")
    return explore(chosen.laws or list(LAWS), chosen.directory, chosen.seconds, chosen.seed)


if __name__ == "__main__":
    sys.exit(main())
