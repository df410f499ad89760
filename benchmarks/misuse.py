"""Try to make taut certify what is not true: random problems, and one thing that goes wrong.

Each case is a family and a seed (`tests/misuses`). Its outcome is judged by enumeration of all
labels, which shares no code with the library. Cases run in forked workers with a limit of time, so
that crashes and hangs are counted.

    python benchmarks/misuse.py --cases 10000 --seed 0 --jobs 2
    python benchmarks/misuse.py --family streams --cases 500
    python benchmarks/misuse.py --only starts:17
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import multiprocessing
import os
import re
import signal
import sys
import time
from multiprocessing.connection import Connection, wait
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from misuses import BAD, FAMILIES, KINDS, Verdict, run_case

Case = tuple[str, int]


class Worker:
    """A forked process that runs one case after the other."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self.case: Case | None = None
        self.deadline = 0.0

    def give(self, case: Case, seconds: float) -> None:
        """Begin a case."""
        self.case, self.deadline = case, time.monotonic() + seconds
        self.pipe.send(case)

    def end(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _serve(pipe: Connection) -> None:
    # Compiled code of the library waits for no one: an interrupt is for the parent to handle.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.disable()
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    while True:
        try:
            family, seed = pipe.recv()
        except EOFError:
            return
        pipe.send(run_case(family, seed))


def run(cases: list[Case], jobs: int, seconds: float, limit: float) -> dict[Case, Verdict]:
    """The verdicts of all cases that `limit` seconds allow."""
    verdicts: dict[Case, Verdict] = {}
    pending = collections.deque(cases)
    again: set[Case] = set()  # what took too long once: compiling may have been the reason
    workers = [Worker() for _ in range(jobs)]
    began = shown = time.monotonic()
    while True:
        now = time.monotonic()
        for k, worker in enumerate(workers):
            if worker.case is None and pending and now - began < limit:
                case = pending.popleft()
                worker.give(case, seconds * (6 if case in again else 1))
            elif worker.case is not None and now > worker.deadline:
                if worker.case in again:
                    verdicts[worker.case] = Verdict("hang")
                else:
                    again.add(worker.case)
                    pending.appendleft(worker.case)
                worker.end()
                workers[k] = Worker()
        busy = {worker.pipe: k for k, worker in enumerate(workers) if worker.case is not None}
        if not busy:
            if pending and now - began < limit:  # the last one was killed just now
                continue
            break
        for pipe in wait(list(busy), timeout=1.0):
            worker = workers[busy[pipe]]
            assert worker.case is not None
            try:
                verdicts[worker.case] = worker.pipe.recv()
                worker.case = None
            except (EOFError, ConnectionResetError):
                worker.process.join()
                verdicts[worker.case] = Verdict("crash", f"exit code {worker.process.exitcode}")
                worker.end()
                workers[busy[pipe]] = Worker()
        if sys.stderr.isatty() and now - shown > 1.0:
            shown = now
            bad = sum(verdict.kind in BAD for verdict in verdicts.values())
            print(f"\r{len(verdicts)} of {len(cases)}, {bad} bad", end="", file=sys.stderr)
    for worker in workers:
        worker.end()
    return verdicts


def table(verdicts: dict[Case, Verdict]) -> str:
    """Counts by family."""
    lines = [f"{'family':12s}{'cases':>8s}" + "".join(f"{kind:>17s}" for kind in KINDS)]
    counts = collections.Counter((case[0], verdict.kind) for case, verdict in verdicts.items())
    for family in [*FAMILIES, "all"]:
        row = [
            sum(n for (name, k), n in counts.items() if k == kind and family in (name, "all"))
            for kind in KINDS
        ]
        if sum(row):
            lines.append(f"{family:12s}{sum(row):8d}" + "".join(f"{n:17d}" for n in row))
    return "\n".join(lines)


def way(family: str, verdict: Verdict) -> str:
    """What a case did, in the first words of its note; for scales what came of it, too."""
    words = verdict.note.split(":")[0]
    if family == "scales" and verdict.kind in BAD:
        return f"{words}, {re.sub('[-+0-9.e]*[0-9]', '.', verdict.note.split(': ')[-1])}"
    return words.split(" ")[0] if family in ("streams", "checkpoints") else words


def by_way(verdicts: dict[Case, Verdict]) -> str:
    """Counts by what was done, in one family."""
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for (family, _seed), verdict in verdicts.items():
        counts[way(family, verdict)][verdict.kind] += 1
    lines = [f"{'':40s}" + "".join(f"{kind:>17s}" for kind in KINDS)]
    for name, row in sorted(counts.items()):
        lines.append(f"{name[:39]:40s}" + "".join(f"{row[kind]:17d}" for kind in KINDS))
    return "\n".join(lines)


def ways(verdicts: dict[Case, Verdict]) -> str:
    """What goes wrong how often, by the first words of the notes, with a seed for each."""
    found = collections.defaultdict(list)
    for (family, seed), verdict in verdicts.items():
        if verdict.kind in BAD:
            found[family, verdict.kind, way(family, verdict)].append(seed)
    order = sorted(found.items(), key=lambda item: -len(item[1]))
    return "\n".join(
        f"{len(seeds):6d}  {family} {kind}: {name}  (--only {family}:{min(seeds)})"
        for (family, kind, name), seeds in order
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=1000, help="in all families together")
    parser.add_argument("--seed", type=int, default=0, help="of the first case of each family")
    parser.add_argument("--family", choices=FAMILIES)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=30.0, help="seconds for one case")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds for all")
    parser.add_argument("--show", type=int, default=20, help="bad cases to print of each family")
    parser.add_argument("--only", metavar="FAMILY:SEED", help="one case, in this process")
    arguments = parser.parse_args()
    if arguments.only:
        family, seed = arguments.only.split(":")
        print(*run_case(family, int(seed)).__dict__.values(), sep="\n")
        return
    families = [arguments.family] if arguments.family else list(FAMILIES)
    each = -(-arguments.cases // len(families))
    cases = [(f, arguments.seed + k) for k in range(each) for f in families][: arguments.cases]
    for family in families:  # what is loaded here, workers have
        run_case(family, 0, few=True)
    began = time.monotonic()
    verdicts = run(cases, arguments.jobs, arguments.timeout, arguments.limit)
    seconds = time.monotonic() - began
    shown: collections.Counter[str] = collections.Counter()
    for (family, seed), verdict in sorted(verdicts.items()):
        if verdict.kind in BAD and shown[family] < arguments.show:
            shown[family] += 1
            print(f"--only {family}:{seed}  {verdict.kind}: {verdict.note}")
    print(f"\n{ways(verdicts)}\n\n{table(verdicts)}")
    if arguments.family:
        print(f"\n{by_way(verdicts)}\n")
    print(f"{len(verdicts)} cases in {seconds:.0f} s, {len(verdicts) / seconds:.1f} per second")
    sys.exit(any(verdict.kind == "FALSE" for verdict in verdicts.values()))


if __name__ == "__main__":
    main()
