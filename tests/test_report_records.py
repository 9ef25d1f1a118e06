"""``jointsparse report`` on what its own commands print, and on what anybody else might write."""

import copy
import json
import re

import numpy as np
import pytest
from test_cli import assert_refused, invoke

from jointsparse.cli.main import app
from jointsparse.report.comparison_record import comparison_from_record
from jointsparse.report.record import _unrelated, findings_from_record


@pytest.fixture(scope="module")
def selected():
    return json.loads(invoke("select", "--method", "spca", "--json", "--quiet").stdout)


@pytest.fixture(scope="module")
def compared():
    options = ("--methods", "greedy,spca,sogfs", "--subsamples", "2", "--features", "4")
    return json.loads(invoke("compare", *options, "--label", "diagnosis", "--json").stdout)


def test_a_comparison_becomes_the_page_that_compare_writes(compared, tmp_path):
    run, page = tmp_path / "compare.json", tmp_path / "compare.html"
    run.write_text(json.dumps(compared), encoding="utf-8")
    assert invoke("report", run).exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert "Methods side by side: breast cancer (bundled)" in text
    assert f'<p class="verdict">{compared["verdict"]}</p>' in text
    assert "Explained" not in text
    assert text.index("<svg") < text.index("<table")  # a picture first
    titles = re.findall(r"<th[^>]*>([^<]*)</th>", text.split("<thead>")[1].split("</thead>")[0])
    assert len(titles) == len(set(titles)) >= 8
    chance = compared["random_r2_held_out"]
    assert f"{100 * chance['mean']:.1f} ± {100 * chance['std']:.1f} %" in text
    for method in compared["methods"]:
        assert method["method"] in text
        assert f"{100 * method['r2_held_out']['mean']:.1f}" in text
    for name in compared["kept_by"]:
        assert name in text


def test_who_is_unrelated_follows_from_the_p_values():
    pvalues = np.array([0.01, 0.9, 0.001, 0.5])
    assert _unrelated(pvalues, 2).tolist() == [False, True, False, True]
    assert _unrelated(pvalues, 0).all()
    assert not _unrelated(pvalues, None).any()
    assert not _unrelated(np.array([np.nan, 0.1]), 1).any()


def test_a_record_of_an_earlier_version_is_refused(tmp_path):
    record = json.loads(invoke("select", "--features", 3, "--json").stdout)
    del record["verdict"]
    (tmp_path / "run.json").write_text(json.dumps(record), encoding="utf-8")
    assert_refused(invoke("report", tmp_path / "run.json"), "it has no entry 'verdict'")


def test_nothing_of_a_comparison_is_lost(compared):
    found, data, scaling = comparison_from_record(compared)
    assert data == compared["data"]
    assert scaling == "scaled (standard)"
    assert found.n_features == 30
    np.testing.assert_allclose(found.jaccard, np.array(compared["jaccard"], dtype=float))
    votes = {found.feature_names[j]: int(found.votes[j]) for j in found.votes.nonzero()[0]}
    assert votes == compared["kept_by"]
    for result, method in zip(found.results, compared["methods"], strict=True):
        assert [found.feature_names[j] for j in result.kept] == method["kept"]
        assert result.scores["nmi"] == tuple(method["scores"]["nmi"].values())
    failed = copy.deepcopy(compared)
    failed["methods"][0] |= {"kept": [], "error": "no spread", "seconds": None, "scores": None}
    result = comparison_from_record(failed)[0].results[0]
    assert result.error == "no spread"
    assert np.isnan(result.seconds)


def smaller(record):
    """Return a record with few features, whose places are soon tried."""
    record = copy.deepcopy(record)
    if "ranking" in record:
        record["ranking"] = [row | {"stand_in": None} for row in record["ranking"][:3]]
        record["parameters"] = dict(list(record["parameters"].items())[:3])
        for part in record["components"]:
            part["loadings"] = dict(list(part["loadings"].items())[:2])
    return record


def paths_in(value, path=()):
    """Yield where each part of a document is."""
    yield path
    parts = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        parts = list(enumerate(value))[:1]  # one stands for all
    for key, part in parts:
        yield from paths_in(part, (*path, key))


def changed(record, path, value):
    """Return the document with another value in one place, or without it."""
    record = copy.deepcopy(record)
    if not path:
        return value
    place = record
    for key in path[:-1]:
        place = place[key]
    if value is KeyError:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return record


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


HOSTILE = [
    KeyError, None, True, -1, 0, 10**30, 10**400, float("nan"), float("inf"), -1e308, "",
    "x" * 10**4, "\x1b[2J\u202e<script>alert(1)</script>", [], {}, [[]], [None], {"a": None},
    nested(50),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["selected", "compared"])
def test_a_document_with_anything_in_any_place(kind, request, tmp_path):
    """Either it is a record all the same, or it is refused with a sentence: nothing is raised."""
    record = smaller(request.getfixturevalue(kind))
    read = findings_from_record if kind == "selected" else comparison_from_record
    sentences = []
    for path in paths_in(record):
        for value in HOSTILE:
            try:
                read(changed(record, path, value))
            except ValueError as error:
                sentences.append(str(error))
    assert len(sentences) > 200
    assert all(5 < len(sentence) < 200 for sentence in sentences)


@pytest.mark.parametrize("kind", ["selected", "compared"])
def test_pages_of_hostile_documents(kind, request, tmp_path):
    """What is let through can be drawn, and no script of it is run."""
    record = request.getfixturevalue(kind)
    run, page = tmp_path / "run.json", tmp_path / "run.html"
    rng = np.random.default_rng(0)
    places = list(paths_in(record))
    for number in rng.choice(len(places), 6, replace=False):
        for value in (HOSTILE[number % len(HOSTILE)], HOSTILE[12]):
            document = changed(record, places[number], None if value is KeyError else value)
            run.write_text(json.dumps(document), encoding="utf-8")
            result = invoke("report", run)
            assert result.exit_code in (0, 2), result.output
            if result.exit_code:
                assert_refused(result, "run.json")
            else:
                assert "<script>alert" not in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 10**5, "nested too deeply"),
        ('{"ranking": ' * 10**4, ""),
        ("9" * 5000, ""),
        ("{}", "it has no entry 'ranking'"),
        ("[]", "not an object"),
        ("null", "not an object"),
        ("", ""),
        ('{"methods": 3, "n_kept": 2}', "'methods' is not a list"),
        ('{"points": []}', "it has no entry 'ranking'"),
        ("\x00\x01", ""),
    ],
)
def test_documents_that_are_none_of_ours(text, words, tmp_path):
    run = tmp_path / "run.json"
    run.write_text(text, encoding="utf-8")
    assert_refused(invoke("report", run), "run.json is neither", words)
    assert not (tmp_path / "run.html").exists()


def test_what_is_no_file_is_not_waited_for(tmp_path):
    import os

    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    assert_refused(invoke("report", pipe), "is not a file")
    assert_refused(invoke("report", tmp_path), "is not a file")
    assert_refused(invoke("report", tmp_path / "none.json"), "cannot be read")


def test_the_help_names_both(tmp_path):
    assert "report" in {command.name for command in app.registered_commands}
    assert "compare" in invoke("report", "--help").stdout
