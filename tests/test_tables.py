"""Tables of other formats, and what takes them: columns, arrays, estimators, shards."""

import importlib
import io
import sys
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import taut
from taut.data import open_shards, write_shards
from taut.errors import InvalidData, InvalidFile
from taut.readers import Table

CELLS = 'size,colour,"the, name",price\r\n1.5,red,a,10\r\n\n2,blue,"b ""c""",20\n3e0,red,a,35\n'


@pytest.fixture
def written(tmp_path):
    def write(content, name="file.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_categories_are_columns_of_zeros_and_ones(written):
    table = taut.read(written(CELLS), target="price")
    assert table.feature_names == [
        "size", "colour=blue", "colour=red", "the, name=a", 'the, name=b "c"',
    ]  # fmt: skip
    assert table.X.tolist() == [[1.5, 0, 1, 1, 0], [2, 1, 0, 0, 1], [3, 0, 1, 1, 0]]
    assert table.y.tolist() == [10, 20, 35]
    assert table.y.dtype == np.int64
    assert taut.read(written(CELLS), target=-1).y.tolist() == [10, 20, 35]
    assert taut.read(written(CELLS), target="colour").y.tolist() == ["red", "blue", "red"]
    assert taut.read(written(CELLS)).y is None
    for delimiter in ";\t":
        text = CELLS.replace(", ", "/").replace(",", delimiter)
        assert (taut.read(written(text), target="price").X == table.X).all()
    source = taut.open_file(written(CELLS), target="colour", chunk_size=1)
    rows = [chunk.X for chunk in source.chunks()]
    assert [len(X) for X in rows] == [1, 1, 1]
    assert (np.vstack(rows)[:, 0] == [1.5, 2, 3]).all()
    assert source.classes.tolist() == ["blue", "red"]


def test_many_categories_are_sparse(written):
    text = "word,n\n" + "".join(f"w{k},{k}\n" for k in range(40))
    table = taut.read(written(text), target="n")
    assert sp.issparse(table.X)
    names = table.feature_names
    assert (
        table.X.toarray() == [[name == f"word=w{k}" for name in names] for k in range(40)]
    ).all()


def test_other_columns_have_other_uses(written):
    text = "id,q,w,x,y\na,1,0.5,3,1\nb,1,2,4,0\nc,2,1,5,1\n"
    table = taut.read(written(text), target="y", weight="w", query="q", ignore="id")
    assert table.X.tolist() == [[3], [4], [5]]
    assert table.sample_weight.tolist() == [0.5, 2, 1]
    assert table.queries.tolist() == [1, 1, 2]
    for options, message in [
        ({"target": "z"}, "target = 'z' is no column: there are 'id', 'q'"),
        ({"target": 5}, "target = 5, and there are 5 columns"),
        ({"target": True}, "give the name or the number"),
        ({"target": "w", "weight": "w"}, "another use"),
        ({"ignore": range(5)}, "no column is left"),
        ({"delimiter": ",,"}, "delimiter = ',,'"),
        ({"header": "no"}, "header = 'no'"),
    ]:
        with pytest.raises(InvalidData, match=message):
            taut.read(written(text), **options)


def test_headers_are_told_or_given(written):
    assert taut.read(written("1,2\n3,4\n")).X.tolist() == [[1, 2], [3, 4]]
    assert taut.read(written("1,2\n3,4\n"), header=True).feature_names == ["1", "2"]
    assert taut.read(written("a,b\nc,d\n")).X.shape == (2, 4)
    assert taut.read(written("a,b\nc,d\n"), target="b").y.tolist() == ["d"]
    assert taut.read(written("a,b\n1,2\n")).feature_names == ["a", "b"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n1,2\n\n3,\n", "line 4: '' in column 'b' is missing"),
        ("a,b\n1,2\n3,NaN\n", "line 3: 'NaN' in column 'b' is missing"),
        ("a,b\n1,2\n3,inf\n", "line 3: 'inf' in column 'b' is not finite"),
        ("a,b\n1,x\n3,\n", "line 3: '' in column 'b' is missing"),
        ("a,b\n1,2\n1\n", "line 3: the line has 1 cells, the first one 2"),
        ("a\tb\n1\n", "line 2: the line has 1 cells"),
        ('a,b\n1,"x\n', "is no CSV here"),
        ("a,a\n1,2\n", "line 1: two columns have the name 'a'"),
        ("a,b\n", "has no rows"),
        ("\n\n", "has no rows"),
        (b"a,b\n1,\xff\n", "line 2, column 3: byte 0xff is not UTF-8"),
        ("a,b\n1," + "x" * 200_000, "is no CSV here"),
    ],
)
def test_faults_of_cells_have_places(written, content, message):
    for reader in (taut.read, taut.open_file):
        with pytest.raises(InvalidFile, match=r"^file\.csv[,:] .*" + message):
            reader(written(content))


def test_test_data_have_the_columns_of_training_data(written):
    train = taut.read(written(CELLS), target="price")
    test = taut.read(written('colour,"the, name",size\nblue,a,7\n'), like=train)
    assert test.X.tolist() == [[7, 1, 0, 1, 0]]
    assert test.y is None
    with pytest.raises(InvalidFile, match="line 2: 'green' in column 'colour' is no category of"):
        taut.read(written('size,colour,"the, name"\n1,green,a\n'), like=train)
    with pytest.raises(InvalidFile, match="has no column 'colour', which the training data have"):
        taut.read(written("size\n1\n"), like=train)


def test_arrays_of_numpy(tmp_path, rng):
    X, y = rng.normal(size=(9, 4)), np.array(list("abcabcabc"))
    X[rng.random(X.shape) < 0.5] = 0.0
    np.save(tmp_path / "c.npy", X)
    np.save(tmp_path / "f.npy", np.asfortranarray(X))
    np.savez_compressed(tmp_path / "xy.npz", X=X, y=y, sample_weight=np.arange(9))
    np.savez(tmp_path / "l.npz", X=X, y=y, lengths=[2, 3, 4], sample_weight=[1, 2, 3], qid=[1] * 9)
    sp.save_npz(tmp_path / "s.npz", sp.csr_array(X))
    parts = sp.csr_array(X.astype(np.float32))
    np.savez(
        tmp_path / "p.npz", data=parts.data, indices=parts.indices, indptr=parts.indptr,
        shape=(9, 7), y=np.arange(9),
    )  # fmt: skip
    for name in ("c.npy", "f.npy", "xy.npz", "l.npz", "s.npz", "p.npz"):
        for size in (1, 100, "4MB"):
            table, source = (
                taut.read(tmp_path / name),
                taut.open_file(tmp_path / name, chunk_size=size),
            )
            again = taut.readers.tables.table_of(source)
            for each in (table, again):
                dense = each.X.toarray() if sp.issparse(each.X) else each.X
                wanted = np.pad(X.astype(np.float32), ((0, 0), (0, 3))) if name == "p.npz" else X
                assert (dense == wanted).all()
            if table.y is not None:
                assert list(again.y) == list(table.y)
    assert taut.read(tmp_path / "xy.npz").y.tolist() == y.tolist()
    assert taut.read(tmp_path / "xy.npz").sample_weight.tolist() == list(range(9))
    tokens = taut.read(tmp_path / "l.npz")
    assert (tokens.lengths.tolist(), tokens.sample_weight.tolist()) == ([2, 3, 4], [1, 2, 3])
    column = taut.read(tmp_path / "c.npy", target=-1)
    assert (np.column_stack([column.X, column.y]) == X).all()


def saved(save, *values, **named):
    file = io.BytesIO()
    save(file, *values, **named)
    return file.getvalue()


def a_lie():
    """A header that claims more than there is."""
    content = saved(np.save, np.zeros((3, 2)))
    return content.replace(b"'shape': (3, 2), }" + b" " * 12, b"'shape': (3000000000000, 2), }")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.npy", saved(np.save, np.array([{}], dtype=object)), "holds objects of Python"),
        ("a.npy", saved(np.save, np.arange(3)), r"has shape \(3,\)"),
        ("a.npy", saved(np.save, np.array([["a"]])), "type <U1"),
        ("a.npy", a_lie(), "ends before the last"),
        ("a.npy", b"\x93NUMPY\x01\x00\x10\x00{'descr': '<f8',", "cannot be read"),
        ("a.npz", b"PK\x03\x04 and no more", "cannot be read"),
        ("a.npz", saved(np.savez, X=np.ones((2, 2)), y=[1]), "y has 1 items for 2"),
        ("a.npz", saved(np.savez, X=np.ones((2, 2)), z=[1]), "holds the array 'z'"),
        ("a.npz", saved(np.savez, y=[1]), "has neither X nor data"),
        ("a.npz", saved(np.savez, X=np.ones((2, 2)), lengths=[2, 0]), "not all positive"),
        (
            "a.npz", saved(np.savez, data=[1.0], indices=[5], indptr=[0, 1], shape=[1, 3]),
            "column index 5",
        ),
        (
            "a.npz", saved(np.savez, data=[1.0], indices=[0], indptr=[0, 2], shape=[1, 3]),
            "do not fit each other",
        ),
        ("a.npz", saved(sp.save_npz, sp.csc_array(np.eye(2))), "save it as CSR"),
    ],
)  # fmt: skip
def test_arrays_that_lie_are_refused(written, name, content, message):
    for reader in (taut.read, taut.open_file):
        with pytest.raises((InvalidFile, InvalidData), match=message):
            reader(written(content, name))


def test_a_bomb_is_refused(tmp_path):
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", a_lie())
    with pytest.raises(InvalidFile, match="X is shorter than its shape"):
        taut.read(path)


def test_arrow_files_need_pyarrow_or_hold_columns(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pyarrow", None)
        path = tmp_path / "none.parquet"
        path.write_bytes(b"PAR1")
        with pytest.raises(InvalidData, match=r"pip install 'taut\[arrow\]'"):
            taut.read(path)
    arrow = pytest.importorskip("pyarrow")
    parquet, feather = map(importlib.import_module, ("pyarrow.parquet", "pyarrow.feather"))
    columns = {"a": [1.5, 2, 3], "k": ["x", "y", "x"], "t": [True, False, True], "y": [1, 2, 1]}
    parquet.write_table(arrow.table(columns), tmp_path / "a.parquet")
    feather.write_feather(arrow.table(columns), tmp_path / "a.feather")
    for name in ("a.parquet", "a.feather"):
        table = taut.read(tmp_path / name, target="y")
        assert table.feature_names == ["a", "k=x", "k=y", "t"]
        assert table.X.tolist() == [[1.5, 1, 0, 1], [2, 0, 1, 0], [3, 1, 0, 1]]
        assert table.y.tolist() == [1, 2, 1]
        assert taut.open_file(tmp_path / name, target="k", chunk_size=1).n_blocks == 3
    parquet.write_table(arrow.table({"a": [1.0, None]}), tmp_path / "n.parquet")
    with pytest.raises(InvalidFile, match="row 2: a cell of column 'a' is missing"):
        taut.read(tmp_path / "n.parquet")


# What takes tables


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A file of classes, one with fewer columns, one of queries or sequences; shards."""
    folder, rng = tmp_path_factory.mktemp("files"), np.random.default_rng(0)
    X = np.abs(rng.normal(size=(40, 5)).round(3)) * (rng.random((40, 5)) < 0.6)
    X[:, 4] += 0.5
    y = (X.sum(axis=1) > 2.0).astype(int)
    lines = [
        f"{t} QUERY" + "".join(f" {k + 1}:{x[k]}" for k in np.flatnonzero(x)) for x, t in zip(X, y)
    ]
    (folder / "a.svm").write_text("\n".join(lines).replace(" QUERY", ""))
    queries = [line.replace("QUERY", f"qid:{i // 5}") for i, line in enumerate(lines)]
    (folder / "q.svm").write_text("\n".join(queries))
    (folder / "few.svm").write_text("1 1:9\n0 2:0.1\n")
    write_shards(folder / "shards", folder / "a.svm")
    return folder, X, y


def model_of(kind, **options):
    return kind(tol=0.05, random_state=0, **options)


@pytest.mark.parametrize(
    "kind",
    [
        taut.BinarySVM,
        taut.RegressionSVM,
        pytest.param(taut.MulticlassSVM, marks=pytest.mark.long),
    ],
)
def test_estimators_take_tables_sources_and_shards(files, kind):
    folder, X, y = files
    table, source = taut.read(folder / "a.svm"), taut.open_file(folder / "a.svm", chunk_size=300)
    shards = open_shards(folder / "shards")
    model = model_of(kind).fit(table)
    assert (model.coef_ == model_of(kind).fit(sp.csr_array(X), y).coef_).all()
    wanted = model.score(sp.csr_array(X), y)
    for data in (table, source, shards):
        assert (model.predict(data) == model.predict(sp.csr_array(X))).all()
        assert model.score(data) == pytest.approx(wanted, abs=1e-12)
    few = taut.read(folder / "few.svm")
    for data in (few, taut.open_file(folder / "few.svm")):
        assert (
            model.predict(data) == model.predict(np.array([[9.0, 0, 0, 0, 0], [0, 0.1, 0, 0, 0]]))
        ).all()
    with pytest.raises(InvalidData, match="y is given beside"):
        model.score(table, y)
    with pytest.raises(InvalidData, match="fitted with 2: fit it with n_features=5"):
        model_of(kind).fit(few).predict(table)
    with pytest.raises(InvalidData, match="fitted with 2: fit it with n_features=5"):
        model_of(kind).fit(few).predict(source)
    streamed = model_of(kind).fit(source)
    assert streamed.score(shards) == streamed.score(table)
    if kind is taut.BinarySVM:
        report = taut.certify(model, table, tol=0.05)
        assert report.relative_gap == taut.certify(model, sp.csr_array(X), y, tol=0.05).relative_gap
        with pytest.raises(InvalidData, match="holds sequences, and BinarySVM takes rows"):
            model.fit(taut.read(folder / "q.svm", "svm_hmm"))


def test_models_of_others_are_certified_on_files(files):
    from sklearn.svm import LinearSVC

    folder, X, y = files
    model = LinearSVC(loss="hinge", C=0.1, max_iter=100_000, random_state=0).fit(X, y)
    wanted = taut.certify(model, X, y, tol=0.1).relative_gap
    for data in (taut.read(folder / "a.svm"), open_shards(folder / "shards")):
        assert taut.certify(model, data, tol=0.1).relative_gap == pytest.approx(
            wanted, rel=0.5, abs=0.1
        )


def test_columns_in_another_order_are_refused(written):
    text = "a,b,y\n1,0,1\n0,1,0\n2,0,1\n"
    train = written(text, "train.csv")
    test = written("b,a,y\n0,1,1\n", "test.csv")
    model = model_of(taut.BinarySVM).fit(taut.read(train, target="y"))
    for data in (taut.read(test, target="y"), taut.open_file(test, target="y")):
        for call in (model.predict, model.score, lambda data: taut.certify(model, data)):
            with pytest.raises(InvalidData, match=r"has 'b' for a column where .* with 'a': read"):
                call(data)
    assert model.score(taut.read(test, like=model)) == 1.0
    path = train.with_name("model.taut")
    model.save(path)
    assert taut.load(path).reading_ == model.reading_
    short = taut.load(path)
    short.reading_ = replace(model.reading_, found=model.reading_.found[1:])
    short.save(path)
    with pytest.raises(InvalidFile, match="reading_ has shape"):
        taut.load(path)
    # A fit begins anew, and arrays have no names.
    assert model_of(taut.BinarySVM).fit(taut.read(train, target="y")).predict([[1, 0]]) == 1
    assert taut.certify(model, taut.open_file(train, like=model), tol=0.05).relative_gap <= 0.05


def test_weights_of_files_count_in_suspects(written):
    lines = [f"{k % 2} cost:{1 + k % 3} 1:{k % 2 + 0.1 * k} 2:{k % 5}" for k in range(20)]
    table = taut.read(written("\n".join(lines), "file.svm"))
    model = model_of(taut.BinarySVM).fit(table)
    wanted = model.suspects(table.X, table.y, sample_weight=table.sample_weight)
    assert (model.suspects(table).margin == wanted.margin).all()
    with pytest.raises(InvalidData, match="sample_weight is given beside"):
        model.suspects(table, sample_weight=table.sample_weight)


def test_queries_and_sequences_of_files(files):
    folder, X, y = files
    table, source = taut.read(folder / "q.svm"), taut.open_file(folder / "q.svm", chunk_size=500)
    ranking = model_of(taut.RankSVM).fit(table)
    groups = np.arange(40) // 5
    wanted = model_of(taut.RankSVM).fit(sp.csr_array(X), y, groups=groups)
    assert (ranking.coef_ == wanted.coef_).all()
    assert ranking.score(table) == pytest.approx(ranking.score(source))
    assert (ranking.predict(table) == np.concatenate(ranking.predict(source))).all()
    with pytest.raises(InvalidData, match="has no queries, and RankSVM ranks"):
        ranking.fit(taut.read(folder / "a.svm"))
    tokens = taut.read(folder / "q.svm", "svm_hmm")
    chain = model_of(taut.ChainSVM).fit(tokens)
    assert (
        chain.coef_ == model_of(taut.ChainSVM).fit(sp.csr_array(X), y, lengths=[5] * 8).coef_
    ).all()
    assert chain.score(tokens) == chain.score(taut.open_file(folder / "q.svm", "svm_hmm"))
    stacked = (sp.csr_array(X), y)
    assert (chain.suspects(tokens).margin == chain.suspects(*stacked, lengths=[5] * 8).margin).all()
    first = sp.csr_array(X[:5])
    why = chain.explain(first, training=tokens)
    listed = [X[k : k + 5] for k in range(0, 40, 5)], y.reshape(8, 5).tolist()
    assert np.allclose(
        why.examples.contribution, chain.explain(first, training=listed).examples.contribution
    )
    with pytest.raises(InvalidData, match="read it with format='svm_hmm'"):
        chain.fit(table)
    with pytest.raises(InvalidData, match="holds rows, and ChainSVM takes sequences"):
        chain.predict(taut.read(folder / "a.svm"))


def test_online_models_take_files(files):
    folder, X, _ = files
    table, source = taut.read(folder / "a.svm"), taut.open_file(folder / "a.svm", chunk_size=300)
    model = taut.OnlineSVM(random_state=0).fit(table)
    assert (model.predict(source) == model.predict(table)).all()
    assert model.score(source) == model.score(table) == model.score(X, table.y)


def test_shards_of_files_are_those_of_what_is_in_them(files, tmp_path):
    folder, X, y = files
    direct = write_shards(tmp_path / "direct", sp.csr_array(X), y)
    for name, data in [
        ("path", folder / "a.svm"),
        ("text", str(folder / "a.svm")),
        ("source", taut.open_file(folder / "a.svm", chunk_size=200)),
        ("shards", open_shards(folder / "shards")),
    ]:
        written = write_shards(tmp_path / name, data)
        assert written.digest == direct.digest
    (tmp_path / "words.csv").write_text("x,y\n1,b\n2,a\n3,b\n")
    source = taut.open_file(tmp_path / "words.csv", target="y")
    again = taut.read(write_shards(tmp_path / "words", source).path)
    assert isinstance(again, Table)
    assert again.y.tolist() == ["b", "a", "b"]
    assert taut.open_file(tmp_path / "words").classes.tolist() == ["a", "b"]


def test_a_model_refuses_tables_whose_columns_differ(tmp_path):
    def table(name, content, **how):
        (tmp_path / name).write_text(content)
        return taut.read(tmp_path / name, **how)

    train = table("train.csv", "a,b,y\n1,9,x\n2,7,z\n3,1,z\n4,0,x\n", target="y")
    model = taut.BinarySVM(random_state=0).fit(train)
    swapped = "y,b,a\nx,9,1\nz,7,2\n"
    assert model.predict(table("t.csv", swapped, like=model)).tolist() == (
        model.predict(train.X[:2]).tolist()
    )
    for content, words in (
        (swapped, "t.csv has 'b' for a column where the model was fitted with 'a'"),
        ("a,c,y\n1,9,x\n", "t.csv has 'c' for a column where the model was fitted with 'b'"),
        ("a,b,c,y\n1,9,2,x\n", "'c' for a column where the model was fitted with nothing"),
    ):
        with pytest.raises(InvalidData, match=words):
            model.score(table("t.csv", content, target="y"))
