"""``select --report`` and ``jointsparse report``: a page, or one sentence that says why not."""

import json
import sqlite3

import numpy as np
import pytest
from test_cli import assert_refused, invoke
from test_report import Page

from jointsparse import SPCAPSD, RegularizationPath, regularization_path
from jointsparse.cli.options import reporting
from jointsparse.datasets import load_breast_cancer_table
from jointsparse.experiments import Store, experiments


@pytest.fixture
def table(tmp_path):
    """A small CSV with an awkward name, awkward columns and labels."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 5))
    X += 0.3 * rng.standard_normal(X.shape)
    path = tmp_path / "it's <b>.csv"
    header = 'a,=cmd(),<script>alert(1)</script>,d\'""e,f,kind'
    header = header.replace('d\'""e', '"d\'""e"')
    rows = [",".join(map(str, row)) + f",{'xy'[i % 2]}" for i, row in enumerate(X)]
    path.write_text("\n".join([header, *rows]), encoding="utf-8")
    return path


class TestSelect:
    def test_report_of_a_file(self, table, tmp_path):
        target = tmp_path / "r.html"
        result = invoke("select", table, "--label", "kind", "--features", "2", "--report", target)
        assert result.exit_code == 0
        assert f"wrote {target}" in result.stdout
        page = Page(target.read_text(encoding="utf-8"))
        assert sorted(page.payload["names"])[:2] == ["<script>alert(1)</script>", "=cmd()"]
        ids = {attributes.get("id") for _, attributes in page.elements}
        assert {"path-slider", "clusters", "curve-slider"} <= ids
        # The Python of the page selects the same features.
        printed = []
        exec(page.code, {"print": printed.append})
        kept = [
            name
            for name, code in zip(page.payload["names"], page.payload["codes"], strict=True)
            if code in "fgznvk"
        ]
        assert sorted(printed[0]) == sorted(kept)

    def test_bundled_table_and_component_method(self, tmp_path):
        target = tmp_path / "r.html"
        result = invoke(
            *("select", "--method", "spca", "--components", "2", "--features", "3"),
            *("--param", "n_nonzero=4", "--report", target, "--quiet"),
        )
        assert result.exit_code == 0
        page = Page(target.read_text(encoding="utf-8"))
        ids = {attributes.get("id") for _, attributes in page.elements}
        assert "components" in ids
        assert "path-slider" not in ids
        assert any("n_nonzero=4 stands in place of alpha" in note for note in page.notes)
        printed = []
        exec(page.code, {"print": printed.append})
        assert len(printed[0]) == 3

    def test_path_of_a_component_method(self, table, tmp_path):
        target = tmp_path / "r.html"
        asked = ("select", table, "--drop-text", "--method", "jspca", "--components", "2")
        assert invoke(*asked, "--report", target, "--path-points", "5").exit_code == 0
        points = Page(target.read_text(encoding="utf-8")).payload["path"]["points"]
        assert len(points) == 5
        assert all(point["gap"] is None for point in points)  # not convex: no proof

    def test_pixels(self, tmp_path):
        np.save(tmp_path / "x.npy", np.random.default_rng(0).random((30, 12)))
        target = tmp_path / "r.html"
        asked = ("select", tmp_path / "x.npy", "--report", target, "--quiet", "--path-points", "0")
        assert invoke(*asked, "--image-shape", "3x4").exit_code == 0
        page = Page(target.read_text(encoding="utf-8"))
        # Nothing is kept of noise, so nothing is accounted for.
        assert len(page.maps) == 2
        asked = (*asked, "--features", "4")
        assert invoke(*asked, "--image-shape", "3x4").exit_code == 0
        page = Page(target.read_text(encoding="utf-8"))
        assert len(page.maps) == 3
        assert "path" not in page.payload
        assert_refused(invoke(*asked, "--image-shape", "5x5"), "25 pixels", "12 features")

    def test_refused_before_any_work(self, table, tmp_path):
        assert_refused(invoke("select", "--report", tmp_path / "r.pdf"), "must end in .html")
        assert_refused(invoke("select", "--report", tmp_path / "no" / "r.html"), "no directory")
        assert_refused(invoke("select", "--image-shape", "8x8"), "--report")
        shape = ("--report", tmp_path / "r.html", "--image-shape")
        assert_refused(invoke("select", *shape, "8"), "28x28")
        (tmp_path / "folder.html").mkdir()
        assert_refused(invoke("select", "--report", tmp_path / "folder.html"), "directory")

    def test_interrupted_leaves_no_part_of_the_results(self, table, tmp_path, monkeypatch):
        def interrupt(*arguments):
            raise KeyboardInterrupt

        monkeypatch.setattr(reporting, "followed", interrupt)
        ranking, target = tmp_path / "r.csv", tmp_path / "r.html"
        asked = ("select", table, "--drop-text", "--ranking", ranking, "--report", target)
        result = invoke(*asked)
        assert result.exit_code == 130
        assert "nothing was written" in result.stderr
        assert not ranking.exists()
        assert not target.exists()

    def test_long_fits_have_no_path_unless_asked(self, table, tmp_path, monkeypatch):
        monkeypatch.setattr(reporting, "PATH_SECONDS", 0.0)
        target = tmp_path / "r.html"
        asked = ("select", table, "--drop-text", "--report", target, "--quiet")
        invoke(*asked)
        text = target.read_text(encoding="utf-8")
        assert "--path-points 24 asks for it" in text
        assert "path-slider" not in Page(text).data
        invoke(*asked, "--path-points", "3")
        page = Page(target.read_text(encoding="utf-8"))
        assert len(page.payload["path"]["points"]) == 3


def test_points_are_where_features_enter():
    table = load_breast_cancer_table()
    X = (table.values - table.values.mean(axis=0)) / table.values.std(axis=0)
    path = reporting.followed(SPCAPSD(), X, 20)
    assert isinstance(path, RegularizationPath)
    assert path.alphas.size == 20
    assert (np.diff(path.alphas) < 0).all()
    assert path.alphas[0] == pytest.approx(0.95)
    assert path.alphas[-1] == pytest.approx(1e-3)
    changing = np.unique(path.n_features).size
    evenly = np.geomspace(0.95, 1e-3, 20)
    assert changing > np.unique(regularization_path(SPCAPSD(), X, alphas=evenly).n_features).size


class TestReport:
    def test_of_json(self, table, tmp_path):
        result = invoke("select", table, "--label", "kind", "--features", "2", "--json")
        run = tmp_path / "run.json"
        run.write_text(result.stdout, encoding="utf-8")
        assert invoke("report", run).stdout == f"wrote {tmp_path / 'run.html'}\n"
        page = Page((tmp_path / "run.html").read_text(encoding="utf-8"))
        record = json.loads(result.stdout)
        assert page.payload["names"] == [row["feature"] for row in record["ranking"]]
        assert record["verdict"] in page.notes
        assert page.payload["shares"] == [round(100 * row["shared"]) for row in record["ranking"]]
        last = record["ranking"][-1]
        assert f"stand-ins: {last['stand_in']}" in page.row(f"5{last['feature']}")

    def test_of_the_bundled_table(self, tmp_path):
        run = tmp_path / "run.json"
        run.write_text(invoke("select", "--json").stdout, encoding="utf-8")
        assert invoke("report", run).exit_code == 0
        page = Page((tmp_path / "run.html").read_text(encoding="utf-8"))
        record = json.loads(run.read_text(encoding="utf-8"))
        assert record["verdict"] in page.notes
        rows = [text for text, _ in page.rows]
        worth = record["worth"]
        assert f"the kept 10 features{100 * worth['r2_held_out']:.0f}\u202f%" in rows
        assert f"all other features together{100 * worth['ceiling']:.0f}\u202f%" in rows
        assert page.payload["shares"] == [round(100 * row["shared"]) for row in record["ranking"]]

    def test_of_nothing_kept(self, tmp_path):
        np.save(tmp_path / "noise.npy", np.random.default_rng(0).standard_normal((60, 12)))
        run = tmp_path / "run.json"
        run.write_text(invoke("select", tmp_path / "noise.npy", "--json").stdout, encoding="utf-8")
        assert json.loads(run.read_text(encoding="utf-8"))["kept"] == []
        assert invoke("report", run).exit_code == 0
        text = (tmp_path / "run.html").read_text(encoding="utf-8")
        page = Page(text)
        assert "No structure beyond noise: nothing is kept." in page.notes
        assert "No pattern in this table is stronger than in random numbers" in text
        assert 'id="worth"' not in text
        assert set(page.payload["codes"]) == {"u"}

    def test_of_a_component_method(self, tmp_path):
        run = tmp_path / "run.json"
        asked = ("select", "--method", "spca", "--components", "2", "--param", "n_nonzero=4")
        run.write_text(invoke(*asked, "--json").stdout, encoding="utf-8")
        assert invoke("report", run, "--output", tmp_path / "o.html").exit_code == 0
        assert "Component 2" in (tmp_path / "o.html").read_text(encoding="utf-8")

    def test_of_experiments(self, tmp_path):
        run = tmp_path / "results.sqlite"
        experiment = experiments()["001-pitprops"]
        store = Store(run)
        for task in experiment.tasks(quick=True):
            store.add(task, experiment.compute(task.case), seconds=0.1)
        assert invoke("report", run).exit_code == 0
        page = Page((tmp_path / "results.html").read_text(encoding="utf-8"))
        assert any("nonzeros from the paper" in text for text, _ in page.rows)
        sources = [a["src"] for tag, a in page.elements if tag == "img"]
        assert sources
        assert all(source.startswith("data:image/png;base64,") for source in sources)

    def test_refused(self, tmp_path):
        assert_refused(invoke("report", tmp_path / "none.json"), "cannot be read")
        run = tmp_path / "run.json"
        for text in ("not json", "[1, 2]", '{"ranking": []}'):
            run.write_text(text, encoding="utf-8")
            assert_refused(invoke("report", run), "select --json")
        assert_refused(invoke("report", run, "--output", tmp_path / "x.txt"), "must end in .html")
        empty = tmp_path / "empty.sqlite"
        Store(empty)
        assert_refused(invoke("report", empty), "no finished task")
        other = tmp_path / "other.sqlite"
        with sqlite3.connect(other) as connection:
            connection.execute("CREATE TABLE task (x)")
        assert_refused(invoke("report", other), "other.sqlite")
