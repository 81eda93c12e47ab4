"""The real public files, read from a mirror."""

import threading
import zipfile
from collections import Counter
from functools import partial, partialmethod
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from folktables import ACSDataSource, ACSIncome, ACSTravelTime
from numpy.testing import assert_allclose, assert_array_equal
from optional import mirror

from configs.data import DataConfig, FoldsConfig
from configs.load import load_config
from fkd.problems.encoder import Encoder
from fkd.problems.table import canonical_label
from tasks.data.download import TransferPolicy
from tasks.data.load import load_table
from tasks.plan.splits import make_folds
from tasks.storage.settings import Settings

# Rows that folktables' filters keep of the 2018 1-Year files: income, travel time.
COUNTS = {
    "DE": (4713, 4120),
    "ID": (8265, 7123),
    "MT": (5463, 4674),
    "NE": (10785, 9533),
    "NH": (7966, 6948),
    "NM": (8711, 7548),
    "ND": (4455, 3859),
    "SD": (4899, 4257),
    "WV": (8103, 7015),
}


pytestmark = pytest.mark.needs("mirror")


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    return Settings(tmp_path_factory.mktemp("home"), str(mirror()), None, None)


@pytest.fixture(scope="module")
def oracle(tmp_path_factory):
    """Return the rows of Montana from the loader of folktables."""
    root = tmp_path_factory.mktemp("folktables")
    folder = root / "2018" / "1-Year"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(mirror() / "census/2018/1-Year/csv_pmt.zip") as archive:
        archive.extract("psam_p30.csv", folder)
    source = ACSDataSource("2018", "1-Year", "person", root_dir=str(root))
    return source.get_data(states=["MT"], download=False)


@pytest.mark.parametrize("state", sorted(COUNTS))
@pytest.mark.parametrize(("index", "problem"), [(0, "acs_income"), (1, "acs_travel_time")])
def test_every_state_has_the_rows_that_folktables_counts(settings, state, index, problem):
    provenance = load_table(DataConfig(problem=problem, states=(state,)), settings).provenance
    at_home = provenance["rows_dropped"].get("no travel time: works at home", 0)
    assert provenance["rows_used"] + at_home == COUNTS[state][index]
    assert not provenance["synthetic"]


@pytest.mark.parametrize(
    ("problem", "theirs"), [("acs_income", ACSIncome), ("acs_travel_time", ACSTravelTime)]
)
def test_rows_of_montana_equal_those_of_folktables(settings, oracle, problem, theirs):
    table = load_table(DataConfig(problem=problem, drop=()), settings).table
    frame = theirs._preprocess(oracle)
    frame = frame[frame[theirs.target].notna()].reset_index(drop=True)
    assert_array_equal(table.target, frame[theirs.target])
    assert_array_equal(table.sensitive[:, 0], frame["AGEP"])
    assert_array_equal(table.extra["PWGTP"], frame["PWGTP"])
    # What folktables' nan_to_num really does to a missing number: zero, not -1.
    numbers = frame[list(table.numeric_names)].fillna(0.0)
    assert_array_equal(table.numeric, numbers)
    for name, codes, labels in zip(
        table.categorical_names, table.codes.T, table.levels, strict=True
    ):
        ours = np.array([*labels, ""])[codes]
        assert_array_equal(ours, [canonical_label(value) for value in frame[name]], err_msg=name)
    assert set(theirs.features) - {"ST"} == set(table.numeric_names + table.categorical_names)


def test_codes_as_numbers_equal_the_matrix_of_folktables(settings, oracle):
    table = load_table(DataConfig(problem="acs_income", drop=(), labels="codes"), settings).table
    features, *_ = ACSIncome.df_to_numpy(oracle)
    order = [ACSIncome.features.index(name) for name in table.numeric_names]
    assert len(order) == len(ACSIncome.features)
    assert_array_equal(table.numeric, features[:, order])


def test_missing_values_of_crimes_can_be_filled(settings):
    plain = load_table(DataConfig(source="uci"), settings).table
    filled = load_table(DataConfig(source="uci", missing="zero"), settings).table
    assert (len(plain.numeric_names), len(filled.numeric_names)) == (98, 121)
    kept = [filled.numeric_names.index(name) for name in plain.numeric_names]
    assert_array_equal(filled.numeric[:, kept], plain.numeric)
    police = filled.numeric[:, filled.numeric_names.index("PolicCars")]
    assert (police == 0).sum(axis=0) >= 1675


def test_counts_and_ranges_of_montana(settings):
    income = load_table(DataConfig(problem="acs_income"), settings)
    assert income.table.target_range == (110.0, 900_000.0)
    assert all(line["missing"] == 0 for line in income.provenance["columns"])
    travel = load_table(DataConfig(problem="acs_travel_time"), settings)
    assert travel.provenance["rows_dropped"]["no travel time: works at home"] == 471
    assert travel.table.n == 4203
    assert travel.provenance["columns_left_out"]["ST"] == "constant in these rows"


def test_one_hot_columns_of_montanas_folds(settings):
    table = load_table(DataConfig(problem="acs_income"), settings).table
    widths = [
        Encoder.fit(table.take(fold.train), scale="minmax")
        .transform(table.take(fold.test))
        .shape[1]
        for fold in make_folds(table, FoldsConfig(), seed=0)
    ]
    assert (min(widths), max(widths)) == (574, 582)


def test_nine_states_have_the_rows_of_each(settings):
    states = tuple(sorted(COUNTS))
    loaded = load_table(DataConfig(problem="acs_income", states=states), settings)
    assert loaded.table.n == sum(income for income, _ in COUNTS.values())
    assert len(np.unique(loaded.table.extra["ST"])) == 9


class _Flaky(SimpleHTTPRequestHandler):
    """Serve a folder. Requests for a file are refused, then truncated, then answered."""

    def do_GET(self):
        self.server.requests[self.path] += 1
        if self.server.requests[self.path] == 1:
            return self.send_error(503)
        if self.server.requests[self.path] == 2:
            self.send_response(200)
            self.send_header("Content-Length", "1000000")
            self.end_headers()
            return self.wfile.write(b"PK")
        return super().do_GET()

    def log_message(self, *args):
        pass


def test_an_unreliable_address_gives_the_rows_of_a_folder(settings, tmp_path, monkeypatch):
    monkeypatch.setattr(
        TransferPolicy, "__init__", partialmethod(TransferPolicy.__init__, backoff=0.01)
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Flaky, directory=str(mirror())))
    server.requests = Counter()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        address = f"http://127.0.0.1:{server.server_port}"
        data = DataConfig(problem="acs_income", states=tuple(sorted(COUNTS)))
        loaded = load_table(data, Settings(tmp_path, address, None, None))
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert loaded.digest == load_table(data, settings).digest
    assert set(server.requests.values()) == {3}


@pytest.mark.parametrize("name", ["acs_income", "acs_travel_time"])
def test_the_shipped_configurations_load_with_another_state(settings, name):
    config = load_config(name, ["data.states=[ID]"])
    provenance = load_table(config.data, settings).provenance
    assert provenance["files"][0]["name"] == "census/2018/1-Year/csv_pid.zip"


def test_ucis_file_has_the_published_means(settings):
    loaded = load_table(
        DataConfig(source="uci", measure_on=("racepctblack", "racePctWhite")), settings
    )
    assert loaded.table.n == 1994
    means = [*loaded.table.sensitive.mean(axis=0), loaded.table.target.mean()]
    assert_allclose(means, [0.1796, 0.7537, 0.2380], atol=5e-5)


def test_each_embedded_row_is_one_row_of_ucis_file(settings):
    def rows(data):
        table = load_table(data, settings).table
        columns = np.column_stack([table.numeric, table.target, table.extra["fold"]])
        return sorted(map(tuple, columns.round(2)))

    uci, ours = rows(DataConfig(source="uci", drop=())), rows(DataConfig(drop=()))
    assert len(set(uci)) == 1994
    assert set(ours) < set(uci)
    assert len(set(ours)) == 1993
