"""Cost matrices come out of CSV files as they are meant, or the file is refused with the place."""

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import taut
from taut import LatentMulticlassSVM, MulticlassSVM
from taut.errors import InvalidData, InvalidFile
from taut.structures import Multiclass, load_cost

COST = np.array([[0.0, 1.0, 3.0], [1.5, 0.0, 3.0], [2.0, 4.0, 0.0]])
NAMES = ["ray", "trout", "moss"]


@pytest.fixture
def written(tmp_path):
    """A function that writes text to a file."""

    def write(text, encoding="utf-8"):
        path = tmp_path / "cost.csv"
        path.write_text(text, encoding=encoding)
        return path

    return write


def as_text(cost, row_names=None, column_names=None, separator=","):
    """The file, written cell by cell."""
    lines = [[str(value) for value in row] for row in cost]
    if row_names is not None:
        lines = [[str(name), *line] for name, line in zip(row_names, lines, strict=True)]
    if column_names is not None:
        corner = [] if row_names is None else [""]
        lines = [[*corner, *map(str, column_names)], *lines]
    return "\n".join(separator.join(line) for line in lines) + "\n"


@pytest.mark.parametrize("separator", [",", ";", "\t", ", "])
@pytest.mark.parametrize("names", [NAMES, [0, 1, 2], [7, 5, 6], [0.0, 1.0, 2.0]])
@pytest.mark.parametrize("sides", ["", "rows", "columns", "rows columns"])
def test_names_may_be_on_both_sides(written, separator, names, sides):
    rows, columns = ((names if side in sides else None) for side in ("rows", "columns"))
    path = written(as_text(COST, rows, columns, separator))
    assert_array_equal(load_cost(path), COST)
    assert_array_equal(load_cost(str(path), names), COST)
    if sides:
        assert_array_equal(load_cost(path, names[::-1]), COST[::-1, ::-1])
        assert_array_equal(load_cost(path, np.array(names)[[2, 0]]), COST[np.ix_([2, 0], [2, 0])])


@settings(max_examples=30)
@given(rows=st.permutations(range(3)), columns=st.permutations(range(3)))
def test_rows_may_be_in_another_order_than_columns(tmp_path_factory, rows, columns):
    path = tmp_path_factory.mktemp("cost") / "cost.csv"
    pd.DataFrame(COST, NAMES, NAMES).iloc[list(rows), list(columns)].to_csv(path)
    assert_array_equal(load_cost(path, NAMES), COST)
    assert_array_equal(load_cost(path), COST[np.ix_(columns, columns)])


def test_what_programs_write(written, tmp_path):
    text = '\n"","ray, skates","trout"\n\n"ray, skates",0,1\n"trout",2,0\n\n'
    expected = [[0, 1], [2, 0]]
    for encoding in ("utf-8", "utf-8-sig"):
        assert_array_equal(load_cost(written(text, encoding), ["ray, skates", "trout"]), expected)
    np.savetxt(tmp_path / "plain.csv", COST, delimiter=";")
    assert_array_equal(load_cost(tmp_path / "plain.csv"), COST)


def test_a_file_as_the_cost_of_a_model(written, tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(15, 3)), np.array(NAMES * 5)
    path = written(as_text(COST, NAMES, NAMES))
    by_matrix = MulticlassSVM(cost=COST[np.ix_([2, 0, 1], [2, 0, 1])], random_state=0).fit(X, y)
    for given_path in (path, str(path)):
        model = MulticlassSVM(cost=given_path, random_state=0).fit(X, y)
        assert_array_equal(model.cost_, by_matrix.cost)
        assert_array_equal(model.coef_, by_matrix.coef_)
    model = MulticlassSVM(cost=path, random_state=0).fit(X, y)
    model.save(tmp_path / "m")
    path.unlink()  # a fitted model does not need it
    again = taut.load(tmp_path / "m")
    assert again.cost == str(path)
    cost = -COST[[NAMES.index(label) for label in y], [NAMES.index(k) for k in model.predict(X)]]
    for one in (model, again):
        assert one.score(X, y, metric="cost") == pytest.approx(cost.mean())
    for estimator in (MulticlassSVM, LatentMulticlassSVM):
        with pytest.raises(FileNotFoundError, match=re.escape(str(path))):
            estimator(cost=path).fit(X, y)


def test_codes_are_named_by_numbers_or_not_at_all(written):
    assert_array_equal(Multiclass(3, written(as_text(COST))).cost, COST)
    turned = written(as_text(COST, [2, 1, 0], [2, 1, 0]))
    assert_array_equal(Multiclass(3, turned).cost, COST[::-1, ::-1])
    with pytest.raises(InvalidData, match=r"has no class '0', it names 'ray', 'trout', 'moss'"):
        Multiclass(3, written(as_text(COST, NAMES)))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", r"cost\.csv is empty: give cost\[truth, answer\]"),
        (" \n;\n", r"cost\.csv is empty"),
        ("0,1\n1,0,2\n", r"has 3 cells in line 2 and 2 in line 1: give each line as many"),
        ("\n,a,b\n\na,0,1\nb,x,0\n", r"has 'x' in line 5, column 2: give a number, with a decimal"),
        ("a,b\n0,\n1,0\n", r"has '' in line 2, column 2: give a number"),
        ("0,1\n-1,0\n", r"has '-1' in line 2, column 1: costs are finite and not negative"),
        ("0,1,1\n1,0,nan\n1,1,0", r"has 'nan' in line 2, column 3: costs are finite"),
        ("a,b\n0,1e999\n1,0", r"has '1e999' in line 2, column 2: costs are finite"),
        (",a,b\nb,1,0\na,2,1\n", r"has 2 in line 3, column 2: the truth must cost 0"),
        ("0,1\n1,5\n", r"has 5 in line 2, column 2: the truth must cost 0"),
        ("0,1,2\n1,0,2\n", r"has 1 in line 1, column 2: the truth must cost 0"),
        ("0,x\n1,0\n", r"has 'x' in line 1, column 2: give a number"),
        ("a,b,c\n", r"has 1 rows and 3 columns: a cost matrix is square"),
        ("a,a\n0,1\n1,0\n", r"names the class 'a' twice: give it one row and one column"),
        ("a,0,1\na,1,0\n", r"names the class 'a' twice"),
        ("a\n", r"has 'a' in line 1, column 1: give a number"),
        ('"a,0\n1,0\n', r"is no CSV file \("),
    ],
)
def test_what_is_no_cost_matrix_is_refused(written, text, words):
    with pytest.raises(InvalidFile, match=words):
        load_cost(written(text))


def test_bytes_that_are_no_text_are_refused(written):
    with pytest.raises(InvalidFile, match=r"is no CSV file .*: save it as text in UTF-8"):
        load_cost(written("r\xe4y,1\n0,1\n", "latin-1"))


def test_missing_classes_are_refused(written):
    path = written(as_text(COST, NAMES, NAMES))
    with pytest.raises(InvalidData, match=r"cost\.csv has no class 'dog', it names 'ray', 'trout'"):
        load_cost(path, ["ray", "dog"])
    with pytest.raises(InvalidData, match=r"cost has shape \(3, 3\), the 2 classes need \(2, 2\)"):
        load_cost(written(as_text(COST)), ["ray", "moss"])
    with pytest.raises(InvalidData, match=r"has no class 'ray', it names 'a', 'b', 'c'"):
        load_cost(written(as_text(COST, ["a", "b", "c"], NAMES)))
