"""Files that lie, by the thousand: what opening and using them comes to.

    python benchmarks/fuzz_files.py --mutations 20000 --seed 0 --kinds shards models checkpoints

Each mutation (`mutations.py`) is opened and used: all chunks are read and trained on, models
predict, runs are resumed and certified. That happens in children of a warm process, so that a crash
or a hang is counted and ends nothing. A certificate of a resumed run is compared with the optimum
of the problem, which a fresh solve has found: one above it is false.
"""

from __future__ import annotations

import argparse
import collections
import os
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import mutations
import taut
from taut.data import Stream, open_shards, write_shards
from taut.errors import InvalidData, InvalidFile, TautError
from taut.latent.alternation import LatentProblem, alternate
from taut.solvers import (
    DualCoordinate,
    FrankWolfe,
    HardNegatives,
    MultiSample,
    NSlack,
    OneSlack,
    OnlineCache,
    PartialLinearization,
    Subgradient,
)
from taut.structures import (
    Bags,
    Chain,
    LatentMulticlass,
    Multiclass,
    NdcgRanking,
    PairwiseRanking,
    Scalar,
    Structure,
)
from taut.training.checkpoint import Checkpoint

OUTCOMES = ("accepted", "InvalidFile", "taut error", "foreign", "false", "crash", "hang")
GOOD = OUTCOMES[:3]
_BATCH = 200  # mutations of one child
_SECONDS = 20.0  # of one mutation, after which it hangs
_ROUNDING = 1e-6  # relative, of bounds that are compared


class FalseCertificate(Exception):
    """Bounds that are not true."""


@dataclass
class Target:
    """A good file, and what using it means."""

    name: str
    path: Path
    use: Callable[[Path, np.random.Generator], None]
    mutate: Callable[[np.random.Generator, Path, Path], None]
    seconds: float = 0.0


@dataclass
class Kind:
    """Good files of one kind."""

    name: str
    targets: list[Target] = field(default_factory=list)

    def run(self, number: int, seed: int, folder: Path) -> tuple[str, str]:
        """Make a mutation and use it; the outcome, and what it says."""
        rng = np.random.default_rng([seed, number, len(self.name)])
        target = self.targets[number % len(self.targets)]
        path = folder / f"{self.name}-{number}"
        try:
            target.mutate(rng, target.path, path)
            return outcome_of(lambda: target.use(path, rng), target.name)
        finally:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def outcome_of(use: Callable[[], None], name: str) -> tuple[str, str]:
    """What using a file comes to."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            use()
    except InvalidFile as error:
        return "InvalidFile", f"{name}: {error}"
    except TautError as error:
        return "taut error", f"{name}: {error!r}"
    except FalseCertificate as error:
        return "false", f"{name}: {error}"
    except Exception as error:  # whatever it is, it is what is looked for
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(frame.filename).name}:{frame.lineno}"
        return "foreign", f"{name}: {type(error).__name__}: {error} at {where}"
    return "accepted", name


# Shards


def shard_targets(folder: Path, few: bool) -> list[Target]:
    """Dense, CSR and ragged shards, each read and trained on."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 4))
    sparse = sp.csr_array(X * (np.abs(X) > 0.6))
    y = rng.integers(3, size=24)
    words = np.array(["a", "b", "c"])[y]
    lengths = [3, 5, 4, 6, 4, 2]

    def target(name: str, model: Callable[[], Any], *data: Any, **options: Any) -> Target:
        path = folder / name
        write_shards(path, *data, chunk_size=400, shard_size=900, **options)

        def use(path: Path, rng: np.random.Generator) -> None:
            shards = open_shards(path, verify=bool(rng.random() < 0.5))
            for chunk in shards.chunks(rng.permutation(shards.n_chunks)):
                sum(float(np.sum(a)) for a in chunk.columns().values() if a.dtype.kind in "biuf")
            model().fit(shards)
            shards.load()

        return Target(name, path, use, mutations.mutate_shards)

    fit = {"max_iter": 2, "random_state": 0}
    weight = rng.uniform(0.5, 1.0, size=24)
    csr = target("csr", lambda: taut.MulticlassSVM(**fit), sparse, y)
    if few:
        return [csr]
    return [
        target("dense", lambda: taut.MulticlassSVM(**fit), X, words, sample_weight=weight),
        csr,
        target("csr binary", lambda: taut.BinarySVM(**fit), sparse, y > 0, margin=weight),
        target(
            "real", lambda: taut.RegressionSVM(solver="subgradient", **fit), sparse, X @ np.ones(4)
        ),
        target("ragged", lambda: taut.ChainSVM(**fit), X, words, lengths=lengths),
        target("ragged csr", lambda: taut.ChainSVM(**fit), sparse, y, lengths=lengths),
    ]


# Models


def model_targets(folder: Path, few: bool) -> list[Target]:
    """Models of several estimators, each of which predicts."""
    rng = np.random.default_rng(0)
    X, names = rng.normal(size=(24, 3)), ["a", "b", "c"]
    y = np.array(names)[X[:, :3].argmax(axis=1)]
    parts = np.split(X, [5, 9, 16])
    words = [list(np.array(names)[p.argmax(axis=1)]) for p in parts]
    edges = [np.column_stack([np.arange(len(p) - 1), np.arange(1, len(p))]) for p in parts]
    graphs = list(zip(parts, edges, strict=True))
    bags = np.array([float(p[:, 0].max() > 1.0) for p in parts])
    bags[0] = 1.0 - bags[1]
    tags = Ordinal()
    fit: dict[str, Any] = {"random_state": 0, "max_iter": 30}

    def target(name: str, model: Any, X: Any, *more: Any, **options: Any) -> Target:
        path = folder / name
        model.fit(X, *more)
        if hasattr(model, "fit_temperature"):
            model.fit_temperature(X, *more)
        model.save(path)
        n = len(model.predict(X))

        def use(path: Path, rng: np.random.Generator) -> None:
            again = taut.load(path, **options)
            found = again.predict(X)
            if len(found) != n:
                raise ValueError("predictions for other examples")
            for method in ("decision_function", "predict_marginals", "predict_latent"):
                if hasattr(again, method):
                    getattr(again, method)(X)
            again.score(X, *more)
            certificate, history = again.certificate_, again.history_
            float(certificate.gap) + float(certificate.relative_gap) + len(certificate.message)
            history["dual"].sum() + history["gap"].sum() + again.n_iter_
            repr(again)
            again.save(path)

        def mutate(rng: np.random.Generator, original: Path, path: Path) -> None:
            mutations.mutate_file(rng, original, "model", path)

        return Target(name, path, use, mutate)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        numbers = np.arange(24)
        simple = [
            target("binary", taut.BinarySVM(**fit), X, numbers % 2 == 0),
            target("regression", taut.RegressionSVM(**fit), X, X[:, 0]),
        ]  # fmt: skip
        if few:
            return simple
        return [
            *simple,
            target("multiclass", taut.MulticlassSVM(solver=OneSlack(), **fit), X, y),
            target("classes of numbers", taut.MulticlassSVM(cost=1.0 - np.eye(3), **fit), X,
                   X.argmax(axis=1)),
            target("chain", taut.ChainSVM(boundary=True, **fit), parts, words),
            target("tree", taut.TreeSVM(**fit), graphs, words),
            target("graph", taut.GraphSVM(**fit), graphs, words),
            target("ranking", taut.RankSVM(**fit), parts, [np.arange(len(p)) % 3 for p in parts]),
            target("bags", taut.LatentSVM(**fit), parts, bags),
            target("frames", taut.LatentMulticlassSVM(**fit), parts, ["a", "b", "c", "a"]),
            target("own", taut.StructuredSVM(tags, **fit), X[:, :1], list(numbers % 4),
                   structure=tags),
        ]  # fmt: skip


class Ordinal(Structure):
    """Grades 0..3; a mistake costs its distance."""

    def features(self, x: Any, label: Any) -> np.ndarray:
        """The grade times x, and indicators of the grade."""
        return np.concatenate([label * x, np.arange(4) == label])

    def loss(self, truth: Any, label: Any) -> float:
        """The distance."""
        return abs(truth - label)

    def argmax(self, x: Any, w: np.ndarray, truth: Any = None) -> Any:
        """By looking at all grades."""
        if len(w) != len(x) + 4:  # only the structure knows
            raise InvalidData(f"{len(w)} weights instead of {len(x) + 4}")
        scores = [w @ self.features(x, g) for g in range(4)]
        if truth is not None:
            scores = [s + self.loss(truth, g) for g, s in enumerate(scores)]
        return int(np.argmax(scores))


# Checkpoints


def checkpoint_targets(folder: Path, few: bool) -> list[Target]:
    """Runs of several solvers and structures, stopped on the way, each of which goes on."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3))
    y = (X + 0.8 * rng.normal(size=X.shape)).argmax(axis=1)
    offsets = np.array([0, 3, 8, 12, 15, 20])
    stacked, ends = (X, offsets), offsets[1:] - 1
    relevance = rng.integers(3, size=20)
    relevance[offsets[:-1]], relevance[ends] = 0, 1
    single = X.astype(np.float32)
    chain, rows = Chain(3), Multiclass(3, bias=1.0)
    chosen, frames = np.array([0, -1, 2, -1, 1]), np.array([[0, 1], [1, 0], [2, 2], [0, 1], [1, 3]])

    def memory(structure: Any, *data: Any) -> taut.Problem:
        return taut.Problem(structure, *data, C=0.7)

    def stream(repeatable: bool = True) -> Any:
        parts = [(X[k : k + 4], y[k : k + 4]) for k in range(0, 20, 4)]
        return taut.StreamedProblem(rows, Stream(lambda: iter(parts)), C=0.7)

    marginals = Multiclass(3)
    sequences = memory(chain, stacked, y)
    problems: dict[str, tuple[Any, Any]] = {
        "rows": (memory(rows, X, y), DualCoordinate()),
        "single precision": (memory(rows, single, y), DualCoordinate()),
        "signs": (memory(Scalar(1.0), X, np.where(y > 0, 1.0, -1.0)), DualCoordinate()),
        "chain": (sequences, DualCoordinate()),
        "bags": (memory(Bags(), stacked, chosen), DualCoordinate()),
        "frames": (memory(LatentMulticlass(3), stacked, frames), DualCoordinate()),
        "ndcg": (memory(NdcgRanking(2), stacked, relevance), DualCoordinate()),
        "pairs": (memory(PairwiseRanking(), stacked, relevance), DualCoordinate()),
        "plain": (memory(Ordinal(), X[:, :1], list(y)), DualCoordinate()),
        "frank_wolfe": (sequences, FrankWolfe()),
        "n_slack": (sequences, NSlack()),
        "one_slack": (memory(rows, X, y), OneSlack()),
        "marginals": (memory(marginals, X, y), PartialLinearization()),
        "merged": (sequences, MultiSample()),
        "mined": (sequences, HardNegatives()),
        "mined plain": (memory(Ordinal(), X[:, :1], list(y)), HardNegatives()),
        "subgradient": (memory(rows, X, y), Subgradient()),
        "cache": (stream(), OnlineCache(memory="300KB", reach=0.0)),
        "chunked": (stream(), MultiSample()),
    }
    if few:
        problems = {name: problems[name] for name in ("rows", "chain", "plain", "one_slack")}
    found = [_checkpoint(folder, name, *run) for name, run in problems.items()]
    return found if few else [*found, _latent(folder, LatentMulticlass(3), stacked, frames)]


def _mutate_checkpoint(rng: np.random.Generator, original: Path, path: Path) -> None:
    mutations.mutate_file(rng, original, "checkpoint", path)


def _checkpoint(folder: Path, name: str, problem: Any, solver: Any) -> Target:
    """A run that was stopped after a few passes."""
    path = folder / f"checkpoint {name}"
    best = taut.solve(
        problem,
        None if problem.comes_as == "whole" else solver,
        tol=1e-9,
        max_iter=5000,
        random_state=1,
    ).certificate
    passes = 4

    def go_on(path: Path, tol: float, max_iter: int) -> Any:
        return taut.solve(
            problem, solver, tol=tol, max_iter=max_iter, random_state=0,
            checkpoint=Checkpoint(path, seconds=0.0),
        )  # fmt: skip

    go_on(path, 0.3, passes)
    go_on(path, 1e-7, passes + 1)

    def use(path: Path, rng: np.random.Generator) -> None:
        tol, more = rng.choice([0.3, 1e-2, 1e-6]), int(rng.choice([0, 1, 4]))
        result = go_on(path, float(tol), passes + 1 + more)
        _compare(problem, result, best)

    return Target(name, path, use, _mutate_checkpoint)


def _compare(problem: Any, result: Any, best: Any) -> None:
    """Refuse bounds that the optimum proves false."""
    certificate = result.certificate
    slack = _ROUNDING * (1.0 + best.primal)
    if not certificate.exact:
        return
    if not certificate.dual <= best.primal + slack:
        raise FalseCertificate(f"dual {certificate.dual} above the optimum {best.primal}")
    if not certificate.primal >= best.dual - slack:
        raise FalseCertificate(f"primal {certificate.primal} below the optimum {best.dual}")
    primal = problem.primal(result.w)
    if not abs(certificate.primal - primal) <= slack:
        raise FalseCertificate(f"primal {certificate.primal}, and w has {primal}")


def _latent(folder: Path, structure: Any, X: Any, y: Any) -> Target:
    """Rounds that were stopped."""
    path, latent = folder / "checkpoint latent", LatentProblem(structure, X, y, C=0.7)

    def go_on(path: Path, tol: float, max_rounds: int) -> Any:
        return alternate(
            latent, tol=tol, max_rounds=max_rounds, random_state=0,
            checkpoint=Checkpoint(path, seconds=0.0),
        )  # fmt: skip

    go_on(path, 1e-2, 2)
    optima: dict[bytes, Any] = {}

    def use(path: Path, rng: np.random.Generator) -> None:
        result = go_on(path, float(rng.choice([1e-2, 1e-4])), int(rng.choice([1, 2, 4])))
        if result.rounds.records[-1].changed:
            return  # the certificate is about latent values of a round that nobody has any more
        problem = latent.at(result.w)
        truth = problem.data.blocks.truth.tobytes()
        if truth not in optima:
            optima[truth] = taut.solve(problem, tol=1e-9, max_iter=5000).certificate
        _compare(problem, result, optima[truth])

    return Target("latent", path, use, _mutate_checkpoint)


# Children


TARGETS = {"shards": shard_targets, "models": model_targets, "checkpoints": checkpoint_targets}


def kind_of(name: str, folder: Path, few: bool = False) -> Kind:
    """Good files of a kind, each used once, so that all is compiled; `few` compiles less."""
    home = folder / name
    home.mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind = Kind(name, TARGETS[name](home, few))
    for target in kind.targets:
        copy = folder / "copy"
        shutil.copytree(target.path, copy) if target.path.is_dir() else shutil.copy(
            target.path, copy
        )
        began = time.perf_counter()
        outcome, message = outcome_of(
            lambda target=target, copy=copy: target.use(copy, np.random.default_rng(0)), target.name
        )
        target.seconds = time.perf_counter() - began
        assert outcome == "accepted", message
        shutil.rmtree(copy) if copy.is_dir() else copy.unlink()
    return kind


def outcomes(kind: Kind, first: int, last: int, seed: int, folder: Path) -> Iterator[tuple]:
    """Outcomes of mutations first..last, from children."""
    while first < last:
        end = min(first + _BATCH, last)
        readable, writable = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(readable)
            for number in range(first, end):
                line = "\t".join(kind.run(number, seed, folder)).replace("\n", " ")[:500]
                os.write(writable, line.encode(errors="replace") + b"\n")
            os._exit(0)
        os.close(writable)
        with os.fdopen(readable, "rb", buffering=0) as pipe:
            text, waiting = b"", True
            while waiting:
                waiting = bool(select.select([pipe], [], [], _SECONDS)[0])
                data = pipe.read(65536) if waiting else b""
                waiting = waiting and bool(data)
                text += data
                *lines, text = text.split(b"\n")
                for line in lines:
                    outcome, _, message = line.decode(errors="replace").partition("\t")
                    yield first, outcome, message
                    first += 1
        done, _ = os.waitpid(child, os.WNOHANG)
        name = kind.targets[first % len(kind.targets)].name
        if first < end and done == 0 and not _ends(child):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            yield first, "hang", name
            first += 1
        elif first < end:
            yield first, "crash", name
            first += 1
        elif done == 0:
            os.waitpid(child, 0)


def _ends(child: int) -> bool:
    """Whether a child that was not over a moment ago is over now."""
    time.sleep(0.2)
    return os.waitpid(child, os.WNOHANG)[0] != 0


def main() -> int:
    """Run mutations of each kind, and print what came of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutations", type=int, default=500, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--seconds", type=float, default=1e9, help="limit for each kind")
    parser.add_argument("--show", type=int, default=5, help="messages of each bad outcome")
    options = parser.parse_args()
    print(f"{'kind':12} " + " ".join(f"{name:>12}" for name in OUTCOMES) + "   seconds")
    bad = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind_name in options.kinds:
            kind = kind_of(kind_name, folder)
            counts: collections.Counter = collections.Counter()
            messages = collections.defaultdict(collections.Counter)
            began = time.perf_counter()
            found = (
                each
                for first in range(0, options.mutations, _BATCH)
                if time.perf_counter() - began < options.seconds
                for each in outcomes(
                    kind, first, min(first + _BATCH, options.mutations), options.seed, folder
                )
            )
            for number, outcome, message in found:
                counts[outcome] += 1
                messages[outcome][message if outcome not in GOOD else ""] += 1
                if outcome not in GOOD and messages[outcome].total() <= options.show:
                    print(f"  {kind_name} {number}: {outcome}: {message}", file=sys.stderr)
            seconds = time.perf_counter() - began
            row = " ".join(f"{counts[name]:12}" for name in OUTCOMES)
            print(f"{kind_name:12} {row} {seconds:9.0f}", flush=True)
            bad += sum(counts[name] for name in OUTCOMES if name not in GOOD)
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
