"""The command `taut`: its files, its answers, its exit codes."""

import json
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.datasets import load_iris

import taut
from taut.cli.exits import Exit
from taut.cli.main import COMMANDS, main, make_parser

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[Y]


def svmlight(path, X, y, queries=None):
    lines = []
    for i, (row, label) in enumerate(zip(X, y, strict=True)):
        query = "" if queries is None else f" qid:{queries[i]}"
        values = " ".join(f"{j + 1}:{value!r}" for j, value in enumerate(row.tolist()) if value)
        lines.append(f"{label}{query} {values}\n")
    path.write_text("".join(lines))
    return str(path)


def run(capsys, *arguments):
    """The exit code, standard output and standard error."""
    code = main([str(each) for each in arguments])
    found = capsys.readouterr()
    return code, found.out, found.err


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("command")
    svmlight(folder / "train.svm", X[::2], Y[::2])
    svmlight(folder / "test.svm", X[1::2], Y[1::2])
    arguments = [str(folder / name) for name in ("train.svm", "model.taut")]
    assert main(["train", *arguments, "--C", "1", "--quiet"]) == Exit.DONE
    return folder


def test_answers_are_those_of_the_same_model_in_python(folder, capsys):
    model = taut.MulticlassSVM(C=1.0, random_state=0).fit(X[::2], Y[::2])
    code, out, _ = run(capsys, "predict", folder / "model.taut", folder / "test.svm")
    assert code == Exit.DONE
    assert [float(line) for line in out.split()] == model.predict(X[1::2]).tolist()
    code, out, _ = run(
        capsys, "predict", folder / "model.taut", folder / "test.svm", "--scores", "--json"
    )
    scores = [json.loads(line) for line in out.splitlines()]
    np.testing.assert_allclose(scores, model.decision_function(X[1::2]), atol=1e-12)


def test_measures_are_those_of_score(folder, capsys):
    model = taut.load(folder / "model.taut")
    code, out, _ = run(capsys, "evaluate", folder / "model.taut", folder / "test.svm", "--json")
    assert code == Exit.DONE
    assert json.loads(out)["accuracy"] == pytest.approx(model.score(X[1::2], Y[1::2]))


def test_the_task_is_told_by_the_labels(folder, tmp_path, capsys):
    code, out, err = run(capsys, "train", folder / "train.svm", tmp_path / "m.taut", "--json", "-q")
    assert code == Exit.DONE
    assert json.loads(out)["task"] == "multiclass"
    assert "the task is multiclass" in err
    many = svmlight(tmp_path / "many.svm", X, np.arange(len(X)))
    code, _, err = run(capsys, "train", many, tmp_path / "m.taut")
    assert code == Exit.FAILED
    assert "--task" in err


@pytest.mark.filterwarnings("default::taut.errors.NotConverged")
def test_training_that_ends_early_says_so_and_writes_the_model(folder, tmp_path, capsys):
    code, out, err = run(
        capsys, "train", folder / "train.svm", tmp_path / "m.taut", "--task", "multiclass",
        "--C", "100", "--tol", "1e-9", "--max-iter", "1", "-q", "--json",
    )  # fmt: skip
    assert code == Exit.NOT_CONVERGED
    assert json.loads(out)["status"] == "MAX_ITER"
    assert "warning" in err
    assert taut.load(tmp_path / "m.taut").certificate_.relative_gap > 1e-9


def test_certify_believes_the_data_and_not_the_file(folder, tmp_path, capsys):
    code, out, _ = run(capsys, "certify", folder / "model.taut", folder / "train.svm")
    assert code == Exit.DONE, out
    code, out, _ = run(capsys, "certify", folder / "model.taut", folder / "test.svm", "--json")
    assert code == Exit.REFUTED
    assert "not those of the training" in json.loads(out)["fault"]
    model = taut.load(folder / "model.taut")
    model.coef_[0, 0] += 0.5
    model.save(tmp_path / "changed.taut")  # with a checksum that fits
    code, out, _ = run(capsys, "certify", tmp_path / "changed.taut", folder / "train.svm")
    assert code == Exit.REFUTED
    assert "weights were changed" in out


def test_folds_have_the_weights_of_the_file(folder, tmp_path, capsys):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 2))
    y = (X[:, 0] + rng.normal(size=30) > 0).astype(int)
    lines = [f"{t} cost:{1 + 9 * t} 1:{a} 2:{b}" for (a, b), t in zip(X, y, strict=True)]
    (tmp_path / "w.svm").write_text("\n".join(lines))
    limits = ("--from", "0.1", "--to", "1", "--gap", "0.2", "--cv", "2", "--points", "2")
    code, _, err = run(
        capsys, "path", tmp_path / "w.svm", tmp_path / "m.taut", *limits, "--task", "binary", "-q"
    )
    assert code == 0, err
    model, table = taut.load(tmp_path / "m.taut"), taut.read(tmp_path / "w.svm")
    assert taut.certify(model, table).relative_gap < 0.01
    code, _, err = run(
        capsys, "path", tmp_path / "w.svm", *limits, "--memory", "10MB", "--task", "binary", "-q"
    )
    assert (code, "--cv needs data in memory" in err) == (1, True)


def test_a_damaged_model_is_refused(folder, tmp_path, capsys):
    content = bytearray((folder / "model.taut").read_bytes())
    content[-1] ^= 1
    (tmp_path / "damaged.taut").write_bytes(content)
    code, out, err = run(capsys, "certify", tmp_path / "damaged.taut", folder / "train.svm")
    assert (code, out) == (Exit.FAILED, "")
    assert "SHA-256" in err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], Exit.USAGE, "COMMAND"),
        (["fly"], Exit.USAGE, "invalid choice"),
        (["train", "nowhere.svm", "m.taut"], Exit.FAILED, "nowhere.svm"),
        (["train", "{train}", "{tmp}/no/m.taut", "-q"], Exit.FAILED, "no folder"),
        (["train", "{train}", "{tmp}/m.taut", "-q", "--set", "nonegg=1"], Exit.FAILED, "nonneg"),
        (["train", "{train}", "{tmp}/m.taut", "--set", "nonneg"], Exit.USAGE, "NAME=VALUE"),
        (["train", "{train}", "{tmp}/m.taut", "--format", "svn"], Exit.FAILED, "svmlight"),
        (["train", "{table}", "{tmp}/m.taut", "-q"], Exit.FAILED, "--target"),
        (["train", "{table}", "{tmp}/m.taut", "--memory", "50MB"], Exit.FAILED, "--target"),
        (["train", "{train}", "{tmp}", "-q"], Exit.FAILED, "is a folder"),
        (
            ["train", "{train}", "{tmp}/m.taut", "--report", "{tmp}/no/r.html"],
            Exit.FAILED,
            "no folder",
        ),
        (["train", "{table}", "m.taut", "--read", "foo=1"], Exit.FAILED, "'foo'; it has"),
        (["evaluate", "{model}", "{unlabelled}"], Exit.FAILED, "no labels"),
        (["predict", "{train}", "{train}"], Exit.FAILED, "train.svm"),
        (["certify", "{model}", "{train}", "--C", "1"], Exit.FAILED, "has its own"),
    ],
)
def test_mistakes_end_in_a_sentence(arguments, code, words, folder, tmp_path, capsys):
    places = {"train": folder / "train.svm", "model": folder / "model.taut", "tmp": tmp_path}
    for name in ("table", "unlabelled"):
        places[name] = tmp_path / f"{name}.csv"
        places[name].write_text("a,b,c,d\n1,2,3,4\n5,6,7,8\n")
    found, out, err = run(capsys, *(each.format(**places) for each in arguments))
    assert (found, out) == (code, "")
    assert words in err
    assert "Traceback" not in err


def test_a_checkpoint_is_gone_on_from_only_when_that_is_wanted(folder, tmp_path, capsys):
    train = ["train", folder / "train.svm", tmp_path / "m.taut", "--task", "multiclass", "-q"]
    train += ["--checkpoint", tmp_path / "run.ckpt"]
    assert run(capsys, *train)[0] == Exit.DONE
    first = taut.load(tmp_path / "m.taut")
    code, _, err = run(capsys, *train)
    assert code == Exit.FAILED
    assert "--resume" in err
    assert run(capsys, *train, "--resume")[0] == Exit.DONE
    np.testing.assert_array_equal(taut.load(tmp_path / "m.taut").coef_, first.coef_)


def test_costs_come_from_a_tree(folder, tmp_path, capsys):
    (tmp_path / "tree.json").write_text('{"low": [0.0], "high": [1.0, 2.0]}')
    code, out, _ = run(
        capsys, "train", folder / "train.svm", tmp_path / "m.taut", "-q",
        "--cost", tmp_path / "tree.json", "--test", folder / "test.svm", "--json",
    )  # fmt: skip
    assert code == Exit.DONE
    model = taut.load(tmp_path / "m.taut")
    truth, found = Y[1::2], model.predict(X[1::2]).astype(int)
    heights = np.array([[0, 2, 2], [2, 0, 1], [2, 1, 0]])
    assert json.loads(out)["test"]["mean_cost"] == pytest.approx(heights[truth, found].mean())


def test_tables_keep_their_columns(tmp_path, capsys):
    rows = [f"{','.join(map(str, row))},{name}" for row, name in zip(X.tolist(), NAMES)]
    header = "length,width,petal,petals,kind"
    (tmp_path / "flowers.csv").write_text("\n".join([header, *rows]) + "\n")
    model = tmp_path / "m.taut"
    code, *_ = run(capsys, "train", tmp_path / "flowers.csv", model, "--target", "kind", "-q")
    assert code == Exit.DONE
    # The same columns in another order are the same data.
    swapped = [f"{r[2]},{r[0]},{n},{r[1]},{r[3]}" for r, n in zip(X.tolist(), NAMES)]
    (tmp_path / "other.csv").write_text("\n".join(["petal,length,kind,width,petals", *swapped]))
    measured = [
        json.loads(
            run(capsys, "evaluate", model, tmp_path / name, "--target", "kind", "--json")[1]
        )["accuracy"]
        for name in ("flowers.csv", "other.csv")
    ]
    assert measured[0] == measured[1] > 0.9


def test_queries_are_ranked(tmp_path, capsys):
    queries = np.repeat(np.arange(15), 10)
    shuffled = np.random.default_rng(0).permutation(len(X))
    ranked = svmlight(tmp_path / "rank.svm", X[shuffled], Y[shuffled], queries)
    code, out, err = run(
        capsys, "train", ranked, tmp_path / "m.taut", "-q", "--test", ranked, "--json"
    )
    assert code == Exit.DONE
    assert "the task is ranking" in err
    assert json.loads(out)["test"]["ndcg@10"] > 0.9


def test_data_are_read_part_by_part_within_memory(folder, tmp_path, capsys):
    code, out, _ = run(
        capsys, "train", folder / "train.svm", tmp_path / "m.taut", "--task", "multiclass", "-q",
        "--memory", "200MB", "--C", "1", "--json",
    )  # fmt: skip
    assert code == Exit.DONE
    objective = taut.load(folder / "model.taut").certificate_.primal
    assert json.loads(out)["objective"] == pytest.approx(objective, rel=2e-3)
    code, *_ = run(capsys, "convert", folder / "train.svm", tmp_path / "shards", "-q")
    assert code == Exit.DONE
    assert taut.data.open_shards(tmp_path / "shards").n_blocks == len(X[::2])


def test_paths_are_bounded_and_leave_a_model(folder, tmp_path, capsys):
    code, out, _ = run(
        capsys, "path", folder / "train.svm", tmp_path / "m.taut", "--task", "multiclass", "-q",
        "--from", "0.01", "--to", "0.1", "--gap", "0.05", "--points", "3", "--json",
    )  # fmt: skip
    assert code == Exit.DONE
    found = json.loads(out)
    assert max(found["points"]["gap"]) <= found["gap"] <= 0.05
    assert np.less(found["points"]["lower_bound"], found["points"]["objective"]).all()
    assert pytest.approx(0.1) == taut.load(tmp_path / "m.taut").C


class _Page(HTMLParser):
    """Counts open elements and what a page would fetch."""

    def __init__(self):
        super().__init__()
        self.open, self.fetched = [], []

    def handle_starttag(self, tag, attrs):
        self.fetched += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_report_is_one_page_that_fetches_nothing(folder, tmp_path, capsys):
    page = tmp_path / "page.html"
    code, *_ = run(
        capsys, "train", folder / "train.svm", tmp_path / "m<i>.taut", "--task", "multiclass", "-q",
        "--test", folder / "test.svm", "--report", page,
    )  # fmt: skip
    assert code == Exit.DONE
    text, parser = page.read_text(encoding="utf-8"), _Page()
    parser.feed(text)
    assert parser.open == parser.fetched == []
    assert taut.load(tmp_path / "m<i>.taut").certificate_.message in text
    assert "accuracy" in text
    assert "m<i>" not in text  # but escaped


def test_info_tells_models_from_data(folder, capsys):
    _, out, _ = run(capsys, "info", folder / "model.taut", "--json")
    found = json.loads(out)
    assert found["kind"] == "model, MulticlassSVM"
    assert found["arrays"]["coef_"].startswith("3 x 4")
    _, out, _ = run(capsys, "info", folder / "train.svm", "--json")
    assert json.loads(out)["rows"] == len(X[::2])


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example_that_parses(name, capsys):
    code, out, _ = run(capsys, name, "--help")
    assert code == Exit.DONE
    example = out.split("example:\n")[1].strip()
    words = example.partition("#")[0].split()
    if words[0] == "taut":
        assert make_parser([name]).parse_args(words[1:]).command == name


def test_shells_know_all_options(capsys):
    _, script, _ = run(capsys, "completion", "bash")
    program = script + 'COMP_WORDS=(taut train --tim); COMP_CWORD=2; _taut; echo "${COMPREPLY[@]}"'
    found = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["--time-limit"]


def test_a_reader_that_closes_early_is_no_error(folder):
    command = [sys.executable, "-m", "taut", "predict", *map(str, folder.glob("model.taut"))]
    command.append(str(folder / "test.svm"))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == Exit.DONE
