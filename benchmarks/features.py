"""From a text file to a tagger: F1, CPU time, memory and size on disk, against CRFsuite.

python benchmarks/features.py --data FOLDER

CoNLL-2000 chunks. Each method runs in a process of its own, which reads the training file, makes
attributes by one template, trains, saves the model, loads the test file and labels it. Both sides
have the same attributes: taut by `SequenceFeatures`, CRFsuite by Python loops over positions, as
its users write them. CRFsuite is fed sentence by sentence ("streamed"), or with all attributes in
lists first, as tutorials do ("listed"). Times are CPU seconds after imports; memory is the largest
resident size of the process, interpreter and imports included, up to the last prediction. What
taut compiles on first use is compiled in a run before, which is not counted. C and the number of
passes are those that `chunking.py` has chosen; nothing was chosen here. CRFsuite's averaged
perceptron makes 20 iterations, where its F1 was best there, and L-BFGS 50.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

THREADS = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
SETTING = {"C": 0.1, "tol": 1e-2, "max_iter": 15, "random_state": 0}

#: Offsets of runs of column 0, words, and of column 1, parts of speech.
RUNS = {
    0: [(-2,), (-1,), (0,), (1,), (2,), (-1, 0), (0, 1)],
    1: [
        *[(-2,), (-1,), (0,), (1,), (2,)],
        *[(-2, -1), (-1, 0), (0, 1), (1, 2)],
        *[(-2, -1, 0), (-1, 0, 1), (0, 1, 2)],
    ],
}
TEMPLATE = ["U"] + [
    f"U{column}{runs[0]}{len(runs)}:" + "|".join(f"%x[{k},{column}]" for k in runs)
    for column, several in RUNS.items()
    for runs in several
]
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "taut": ("taut", {"template": TEMPLATE}),
    "taut, min_count=2": ("taut", {"template": TEMPLATE, "min_count": 2}),
    "taut, template='default'": ("taut", {}),
    "CRFsuite ap, streamed": ("crfsuite", {"algorithm": "ap", "passes": 20, "listed": False}),
    "CRFsuite ap, listed": ("crfsuite", {"algorithm": "ap", "passes": 20, "listed": True}),
    "CRFsuite lbfgs, streamed": ("crfsuite", {"algorithm": "lbfgs", "passes": 50, "listed": False}),
}


def peak() -> float:
    """Megabytes that this process had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000.0


def with_taut(train: Path, test: Path, model_path: Path, setting: dict[str, Any]) -> dict[str, Any]:
    """Three lines of taut, with clocks between them."""
    import warnings

    import taut

    warnings.simplefilter("ignore", taut.errors.NotConverged)
    began = time.process_time()
    table = taut.read(train, format="conll")
    features = taut.features.SequenceFeatures(**setting)
    model = taut.ChainSVM(features=features, **SETTING).fit(table)
    trained = time.process_time()
    model.save(model_path)
    names = model.features_.columns_.stored()
    X, y = taut.read(test, format="conll")
    tagging = time.process_time()
    predicted = model.predict(X)
    return {
        "train": trained - began,
        "tag": time.process_time() - tagging,
        "peak": peak(),
        "attributes": model.n_features_in_,
        "names": sum(array.nbytes for array in names.values()) / 1e6,
        "weights that are not 0": int((model.coef_ != 0.0).sum()),
        "f1": 100.0 * taut.metrics.chunk_f1(y, predicted),
    }


def with_crfsuite(
    train: Path, test: Path, model_path: Path, setting: dict[str, Any]
) -> dict[str, Any]:
    """The same by CRFsuite's own trainer and tagger."""
    import pycrfsuite

    began = time.process_time()
    trainer = pycrfsuite.Trainer(algorithm=setting["algorithm"], verbose=False)
    trainer.set("max_iterations", setting["passes"])
    data: Any = ((attributes(words), labels) for words, labels in sentences(train))
    for items, labels in list(data) if setting["listed"] else data:
        trainer.append(items, labels)
    trainer.train(str(model_path))
    trained = time.process_time()
    tagger = pycrfsuite.Tagger()
    tagger.open(str(model_path))
    tested = list(sentences(test))
    tagging = time.process_time()
    predicted = [tagger.tag(attributes(words)) for words, _ in tested]
    found = {
        "train": trained - began,
        "tag": time.process_time() - tagging,
        "peak": peak(),
        "attributes": int(tagger.info().header["num_attrs"]),  # that have weights
    }
    from taut.metrics import chunk_f1

    return found | {"f1": 100.0 * chunk_f1([labels for _, labels in tested], predicted)}


def sentences(path: Path) -> Iterator[tuple[list[list[str]], list[str]]]:
    """Words with their parts of speech, and labels, sentence by sentence."""
    words: list[list[str]] = []
    labels: list[str] = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            if fields := line.split():
                words.append(fields[:2])
                labels.append(fields[2])
            elif words:
                yield words, labels
                words, labels = [], []
    if words:
        yield words, labels


def attributes(words: list[list[str]]) -> list[list[str]]:
    """The attributes of `TEMPLATE` for each position."""
    n, found = len(words), []
    for t in range(n):
        names = ["U"]
        for column, several in RUNS.items():
            for runs in several:
                values = [
                    words[t + k][column] if 0 <= t + k < n
                    else f"_B{t + k}" if t + k < 0
                    else f"_B+{t + k - n + 1}"
                    for k in runs
                ]  # fmt: skip
                names.append(f"U{column}{runs[0]}{len(runs)}:{'|'.join(values)}")
        found.append(names)
    return found


RUNNERS = {"taut": with_taut, "crfsuite": with_crfsuite}


def run_one(name: str, folder: Path) -> dict[str, Any]:
    """What a method does, in this process."""
    kind, setting = METHODS[name]
    train, test = (folder / "conll2000" / f"{split}.txt.gz" for split in ("train", "test"))
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "model"
        found = RUNNERS[kind](train, test, path, setting)
        return found | {"file": path.stat().st_size / 1e6}


def run_apart(name: str, folder: Path) -> dict[str, Any]:
    """The same in a new process."""
    command = [sys.executable, __file__, "--data", str(folder), "--one", name]
    answer = subprocess.run(
        command, env=os.environ | THREADS, stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(answer.stdout)


def report(results: dict[str, Any]) -> str:
    """A table as Markdown."""
    from timing import markdown

    header = ["method", "attributes", "F1", "train, s", "tag, s", "memory, MB", "file, MB"]
    rows = [
        [name, f"{r['attributes']}", f"{r['f1']:.2f}", f"{r['train']:.2f}", f"{r['tag']:.2f}"]
        + [f"{r['peak']:.0f}", f"{r['file']:.1f}"]
        for name, r in results["methods"].items()
    ]
    taut = results["methods"].get("taut")
    parts = "" if taut is None else (
        f"Of taut's file, names take {taut['names']:.1f} MB; {taut['weights that are not 0']} "
        "weights are not 0."
    )  # fmt: skip
    setup = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
    return "\n\n".join(
        [f"CoNLL-2000, one thread, medians of {results['repeats']} runs; {setup}.",
         markdown(header, rows), parts]
    )  # fmt: skip


def medians(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The median of each number of several runs."""
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def main() -> None:
    """Run one method, or all of them in turns."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--data", type=Path, default=os.environ.get("TAUT_DATA"))
    arguments.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    arguments.add_argument("--repeats", type=int, default=1)
    arguments.add_argument("--only", nargs="*", choices=METHODS, default=list(METHODS))
    arguments.add_argument("--one", choices=METHODS, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.data is None:
        raise SystemExit("no data: give --data FOLDER or set TAUT_DATA")
    if options.one:  # imports nothing else: its memory is measured
        print(json.dumps(run_one(options.one, options.data)))
        return
    for name in options.only:
        if METHODS[name][0] == "taut":
            run_apart(name, options.data)  # compiles
            break
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in options.only}
    for _ in range(options.repeats):
        for name in options.only:
            runs[name].append(run_apart(name, options.data))
            print(name, runs[name][-1], file=sys.stderr, flush=True)
    packages = ("taut", "numba", "python-crfsuite")
    results = {
        "versions": {name: version(name) for name in packages},
        "repeats": options.repeats,
        "methods": {name: medians(several) for name, several in runs.items()},
    }
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "features.json").write_text(json.dumps(results, indent=2))
    (options.results / "features.md").write_text(report(results) + "\n")
    print(report(results))


if __name__ == "__main__":
    main()
