"""Rows of a table predicted by a model: the same numbers as by the road of training."""

import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from dask_process import in_threads
from deadlines import patient
from numpy.testing import assert_allclose
from own_sample import HEADER, rents
from pyarrow import feather, parquet
from score_sample import INPUTS, register, rent_model, rent_table, request, write_file

from configs.data import FileFormat
from configs.errors import UserError
from fkd import __version__
from tasks.cluster.cluster import connect
from tasks.data import table_formats as own_blocks
from tasks.data.table_formats import FilePiece, pieces_of, read_blocks
from tasks.monitor import scoring as scored_file
from tasks.monitor.scoring import OutOfRange, UnseenLabels, check_request, score_table

EXACT = 1e-12


@pytest.fixture
def model(tmp_path):
    bundle, _ = rent_model(tmp_path)
    return register(tmp_path, bundle)


@pytest.fixture(params=[(2**14, 2**22), (7, 2048)], ids=["one block", "many blocks"])
def blocks(request, monkeypatch):
    """Blocks that hold the whole file, then such that its rows cross many of them."""
    monkeypatch.setattr(own_blocks, "ROWS_AT_ONCE", request.param[0])
    monkeypatch.setattr(own_blocks, "BYTES_AT_ONCE", request.param[1])


def by_training(model, path):
    """What the model says of a file that training's own reader has read."""
    bundle, table = model.bundle(), rent_table(path)
    low, high = bundle.target_range
    return low + (high - low) * bundle.predictor.predict(bundle.encoder.transform(table))


def frame_of(rows):
    return pd.DataFrame(rows, columns=list(HEADER))


def test_a_messy_csv_is_scored_as_training_would_read_it(model, tmp_path, blocks):
    rows = rents(n=200, seed=5)
    whole = write_file(tmp_path / "whole.csv", rows)
    bare = write_file(tmp_path / "new.csv", rows, columns=("Vertrag", *INPUTS))
    seen = score_table(request(tmp_path, model, bare, keep=("Vertrag",)))
    found = parquet.read_table(tmp_path / "out.parquet")
    assert found.column_names == ["Vertrag", "prediction", "model", "bundle"]
    assert found["Vertrag"].to_pylist() == [row[0] for row in rows]  # the order of the rows
    assert_allclose(found["prediction"].to_numpy(), by_training(model, whole), rtol=EXACT)
    assert seen.rows == 200
    assert seen.filled == {"Fläche m²": 18, "Baujahr": 23}


@pytest.mark.parametrize("ending", ["parquet", "feather", "arrow", "xlsx", "csv.gz"])
def test_every_format_gives_the_same_numbers(model, tmp_path, blocks, ending):
    rows = rents(n=90, seed=6)
    path = tmp_path / f"new.{ending}"
    if ending == "csv.gz":
        frame_of(rows).to_csv(path, index=False)
    elif ending == "xlsx":
        frame_of(rows).to_excel(path, index=False)
    elif ending == "feather":
        feather.write_feather(frame_of(rows), path, chunksize=20)
    elif ending == "arrow":
        table = pa.Table.from_pandas(frame_of(rows))
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=20)
    else:
        frame_of(rows).to_parquet(path, row_group_size=20)
    score_table(request(tmp_path, model, path))
    found = parquet.read_table(tmp_path / "out.parquet")["prediction"].to_numpy()
    expected = by_training(model, write_file(tmp_path / "whole.csv", rows))
    assert_allclose(found, expected, rtol=EXACT)


def test_only_the_inputs_are_read(model, tmp_path, monkeypatch):
    asked = []

    def spied(piece, form, names):
        asked.append(set(names))
        return read_blocks(piece, form, names)

    monkeypatch.setattr("tasks.monitor.scoring.read_blocks", spied)
    path = write_file(tmp_path / "whole.csv", rents(n=30))
    score_table(request(tmp_path, model, path))
    assert set().union(*asked) == set(INPUTS)


def test_the_file_says_by_which_model_it_was_made(model, tmp_path):
    path = write_file(tmp_path / "new.csv", rents(n=30))
    score_table(request(tmp_path, model, path))
    found = parquet.read_table(tmp_path / "out.parquet")
    told = {key.decode(): value.decode() for key, value in found.schema.metadata.items()}
    assert told["fkd.model"] == "rents"
    assert told["fkd.model_version"] == "3"
    assert told["fkd.bundle"] == model.digest
    assert told["fkd.version"] == __version__
    assert set(found["model"].to_pylist()) == {"rents/3"}
    assert set(found["bundle"].to_pylist()) == {model.digest}


def test_a_folder_and_a_cluster_keep_the_order_of_rows(model, tmp_path, settings, monkeypatch):
    monkeypatch.setattr(own_blocks, "PIECE_ROWS", 40)
    monkeypatch.setattr(scored_file, "_PIECES_AT_ONCE", 2)
    folder = tmp_path / "parts"
    folder.mkdir()
    (folder / "_SUCCESS").touch()
    rows = rents(n=260, seed=7)
    frame_of(rows[:200]).to_parquet(folder / "part-0.parquet", row_group_size=20)
    frame_of(rows[200:]).to_parquet(folder / "part-1.parquet", row_group_size=100)
    pieces = pieces_of(folder)
    assert [piece.first for piece in pieces] == [0, 40, 80, 120, 160, 0]
    wanted = request(tmp_path, model, folder, keep=("Vertrag",))
    here = score_table(wanted)
    alone = parquet.read_table(wanted.out)
    with connect(in_threads(workers=2), settings) as client:
        there = score_table(replace(wanted, out=tmp_path / "dask.parquet"), client)
    assert parquet.read_table(tmp_path / "dask.parquet").equals(alone)
    assert alone["Vertrag"].to_pylist() == [row[0] for row in rows]
    assert there == here
    assert here.rows == 260


def test_the_decimal_sign_is_that_of_the_whole_file(model, tmp_path, monkeypatch):
    monkeypatch.setattr(own_blocks, "ROWS_AT_ONCE", 5)
    monkeypatch.setattr(own_blocks, "BYTES_AT_ONCE", 256)
    rows = rents(n=60, seed=8)
    for row in rows:
        row[3] = row[3] or 50.0
    # Only the last one shows that 1.045 is a thousand and more.
    text = ["1.045"] * 59 + ["97,5"]
    plain = [1045.0] * 59 + [97.5]
    lines = ["Fläche m²;Baujahr;Bezirk", *(f"{t};1990;Mitte" for t in text)]
    path = tmp_path / "new.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    score_table(request(tmp_path, model, path))
    found = parquet.read_table(tmp_path / "out.parquet")["prediction"].to_numpy()
    frame = pd.DataFrame({"Fläche m²": plain, "Baujahr": 1990.0, "Bezirk": "Mitte"})
    assert_allclose(found, model.bundle().predict(frame), rtol=EXACT)


def test_text_that_nothing_decides_is_asked_about(model, tmp_path):
    path = tmp_path / "new.csv"
    path.write_text("Fläche m²;Baujahr;Bezirk\n1.045;1990;Mitte\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"may be 1045 or 1\.045 .*data\.decimal"):
        score_table(request(tmp_path, model, path))
    form = FileFormat(decimal="comma")
    assert score_table(request(tmp_path, model, path, form=form)).rows == 1


def test_a_missing_number_is_refused_or_left_empty(tmp_path, blocks):
    bundle, _ = rent_model(tmp_path, missing="drop")
    model = register(tmp_path, bundle)
    path = write_file(tmp_path / "new.csv", rents(n=60, seed=9))
    with pytest.raises(UserError, match=r"column Baujahr must have a value in every row.*line 2 "):
        score_table(request(tmp_path, model, path))
    assert not (tmp_path / "out.parquet").exists()
    seen = score_table(request(tmp_path, model, path, missing="null"))
    found = parquet.read_table(tmp_path / "out.parquet")["prediction"]
    lacks = [row[3] is None or row[4] is None for row in rents(n=60, seed=9)]
    assert [value is None for value in found.to_pylist()] == lacks
    assert not any(np.isnan(value) for value in found.to_pylist() if value is not None)
    assert sum(seen.unscored.values()) == sum(lacks)


def test_what_is_unlike_training_is_counted(model, tmp_path, blocks):
    rows = rents(n=50, seed=10)
    rows[3][3], rows[20][3], rows[40][3] = 900.0, -50.0, 901.0
    for place, town in ((1, "Bern"), (2, "Bern"), (30, "Genf"), (45, "Wien"), (46, "Ulm")):
        rows[place][2] = town
    path = write_file(tmp_path / "new.csv", rows)
    seen = score_table(request(tmp_path, model, path))
    out = seen.outside["Fläche m²"]
    assert (out.below, out.above, out.least, out.greatest) == (1, 2, -50.0, 901.0)
    assert seen.unseen["Bezirk"].counts == {"Bern": 2, "Genf": 1, "Wien": 1, "Ulm": 1}
    told = " ".join(seen.messages(model.bundle()))
    assert "column Fläche m²: 3 of 50 rows (6.00%) outside the training range" in told
    assert "column Bezirk: 5 of 50 rows (10.00%) with a label that no training row had" in told
    assert "'Bern' 2 times" in told
    assert "and others 1 times" in told


def test_rows_like_those_of_training_bring_no_word(model, tmp_path):
    rows = [row for row in rents() if None not in row]
    seen = score_table(request(tmp_path, model, write_file(tmp_path / "new.csv", rows)))
    assert seen.messages(model.bundle()) == []


def test_counts_do_not_depend_on_how_rows_are_split(model, tmp_path):
    bundle = model.bundle()
    frame = frame_of(rents(n=80, seed=11))[list(INPUTS)]
    frame.loc[::9, "Bezirk"] = "Bern"
    frame.loc[::13, "Bezirk"] = None
    frame["Fläche m²"] *= 2.0
    frame = frame.astype({"Fläche m²": float, "Baujahr": float})
    whole = OutOfRange.from_rows(bundle, frame)
    parts = [OutOfRange.from_rows(bundle, part) for part in (frame[:11], frame[11:50], frame[50:])]
    assert parts[0].merge(parts[1]).merge(parts[2]) == whole
    assert whole.outside
    assert whole.unseen["Bezirk"].counts[""] > 0


def test_a_label_that_training_read_as_a_number_is_known(tmp_path):
    """1.50 in a text is the level 1.5, which training's reader has made of it."""
    bundle, _ = rent_model(tmp_path)
    levels = (("0.5", "1.5"),)
    encoder = replace(bundle.encoder, levels=levels)
    X = np.zeros((1, len(encoder.feature_names)))
    bundle = replace(bundle, encoder=encoder, predictor=replace(bundle.predictor, centers=X))
    bundle = replace(bundle, predictor=replace(bundle.predictor, coef=np.ones(1)))
    path = tmp_path / "new.csv"
    text = "Fläche m²,Baujahr,Bezirk\n50,1990,1.50\n50,1990,0.500\n50,1990,2.5\n"
    path.write_text(text, encoding="utf-8")
    seen = score_table(request(tmp_path, register(tmp_path, bundle), path))
    assert seen.unseen["Bezirk"].counts == {"2.5": 1}


def test_labels_of_a_column_take_no_room_of_their_own_in_every_row(monkeypatch):
    monkeypatch.setattr(scored_file, "LABELS_KEPT", 5)
    seen = UnseenLabels(Counter())
    for block in range(20):
        seen = seen.merge(UnseenLabels(Counter({"often": 3, f"once {block}": 1})))
    assert len(seen.counts) == 5
    assert seen.counts["often"] == 60
    assert seen.rows == 80
    assert "'often' 60 times" in seen.examples()
    assert "and others 18 times" in seen.examples()


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        (("Baujahr", "Bezirk", "Miete"), "must be one of Baujahr, Bezirk, Miete, got 'Fläche m²'"),
        (("Vertrag", "Baujahr", "Fläche m²"), "models:/rents/3 predicts from the column 'Bezirk'"),
    ],
)
def test_another_schema_is_told(model, tmp_path, columns, sentence):
    path = write_file(tmp_path / "new.csv", rents(n=20), columns=columns)
    with pytest.raises(UserError, match=sentence):
        score_table(request(tmp_path, model, path))
    assert not list(tmp_path.glob("*.parquet"))
    assert not list(tmp_path.glob(".*.part"))


def test_text_among_numbers_is_told_by_its_line(model, tmp_path, blocks):
    rows = rents(n=60)
    rows[41][3] = "groß"
    path = write_file(tmp_path / "new.csv", rows)
    with pytest.raises(UserError, match="column Fläche m² must hold numbers, but line 43 has"):
        score_table(request(tmp_path, model, path))


@pytest.mark.parametrize(
    ("out", "keep", "sentence"),
    [
        ("out.csv", (), "must end in .parquet"),
        ("data.parquet", (), "must be a file other than the data"),
        ("folder/out.parquet", (), "must not be in the folder"),
        ("out.parquet", ("model",), "got 'model'"),
        ("out.parquet", ("a", "a"), "got 'a'"),
    ],
)
def test_what_cannot_be_written_is_refused_first(tmp_path, out, keep, sentence):
    (tmp_path / "folder").mkdir()
    (tmp_path / "data.parquet").touch()
    data = tmp_path / ("folder" if out.startswith("folder") else "data.parquet")
    with pytest.raises(UserError, match=sentence):
        check_request(data, tmp_path / out, keep)


@pytest.mark.parametrize("content", ["notes.md", None])
def test_a_folder_of_something_else_is_told(tmp_path, content):
    if content:
        (tmp_path / content).touch()
    with pytest.raises(UserError, match="must contain table files only"):
        pieces_of(tmp_path)


def test_a_table_without_rows_is_told(model, tmp_path):
    frame_of([]).to_parquet(tmp_path / "new.parquet")
    with pytest.raises(UserError, match="must have rows to be scored"):
        score_table(request(tmp_path, model, tmp_path / "new.parquet"))
    assert not (tmp_path / "out.parquet").exists()


def test_blocks_of_a_row_group_say_their_own_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(own_blocks, "ROWS_AT_ONCE", 3)
    frame_of(rents(n=20)).to_parquet(tmp_path / "a.parquet", row_group_size=10)
    piece = FilePiece(tmp_path / "a.parquet", (1,), first=10)
    found = [block.raw.position(0) for block in read_blocks(piece, FileFormat(), ["Miete"])]
    assert found == ["row 11", "row 14", "row 17", "row 20"]


_ENDLESS = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from score_sample import *
from tasks.monitor import scoring as scored_file

folder = Path(sys.argv[1])
bundle, _ = rent_model(folder)
blocks = scored_file.score_blocks

def slow(job):
    for i, found in enumerate(blocks(job)):
        yield found
        print("block", i, flush=True)
        if i == 3:
            sys.stdin.read()

scored_file.score_blocks = slow
from tasks.data import table_formats as own_blocks
own_blocks.ROWS_AT_ONCE = 20
scored_file.score_table(request(folder, register(folder, bundle), folder / "train.csv"))
"""


def test_a_kill_leaves_no_half_file_and_the_next_one_clears_up(model, tmp_path):
    out = tmp_path / "out.parquet"
    out.write_bytes(b"what was there before")
    tests = str(Path(__file__).parents[1])
    with subprocess.Popen(
        [sys.executable, "-c", _ENDLESS, str(tmp_path), tests],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
        lines = [writer.stdout.readline() for _ in range(4)]
        assert lines[-1] == "block 3\n"
        writer.send_signal(signal.SIGKILL)
        writer.wait(timeout=patient(60))
    assert out.read_bytes() == b"what was there before"
    assert len(list(tmp_path.glob(".out.parquet.*.part"))) == 1
    score_table(request(tmp_path, model, tmp_path / "train.csv"))
    assert parquet.read_table(out).num_rows == 120
    assert not list(tmp_path.glob(".*.part"))


def test_memory_is_that_of_a_block_of_rows(model, tmp_path, monkeypatch):
    monkeypatch.setattr(own_blocks, "ROWS_AT_ONCE", 500)
    frame = frame_of(rents(n=20_000, seed=3))
    table = pa.Table.from_pandas(frame)
    size = table.nbytes
    parquet.write_table(table, tmp_path / "new.parquet", row_group_size=500)
    del table
    before, held, rows = pa.total_allocated_bytes(), [], []
    kept = scored_file.score_blocks

    def watched(job):
        for batch, seen in kept(job):
            held.append(pa.total_allocated_bytes() - before)
            rows.append(batch.num_rows)
            yield batch, seen

    monkeypatch.setattr(scored_file, "score_blocks", watched)
    score_table(request(tmp_path, model, tmp_path / "new.parquet"))
    assert sum(rows) == 20_000
    assert max(rows) == 500
    assert max(held) < size / 2  # the writer holds pages of its own
    assert max(held) - held[0] < size / 20


def test_rows_without_a_finite_prediction_are_named(tmp_path):
    bundle, _ = rent_model(tmp_path)
    linear = replace(bundle.predictor, kernel="linear", coef=bundle.predictor.coef * 1e200)
    huge = replace(bundle, predictor=replace(linear, centers=linear.centers * 1e200))
    data = write_file(tmp_path / "new.csv", rents(n=3), columns=INPUTS)
    asked = request(tmp_path, register(tmp_path, huge), data)
    with np.errstate(all="ignore"), pytest.raises(UserError, match=r"models:/rents/3 .*line 2"):
        score_table(asked)
    assert not asked.out.exists()
