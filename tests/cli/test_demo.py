"""``demo``: a whole search on bundled data, with and without diffprivlib."""

import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

from skdptune import PrivateRandomSearchCV
from skdptune._cli._centroids import NoisyCentroids
from skdptune._cli._demo import _expected, _warn_of_hours
from skdptune.accounting import PrivacyCurve, best_of
from skdptune.run_counts import Geometric, TruncatedNegativeBinomial

KEYS = [
    "command",
    "candidate",
    "data",
    "n_samples",
    "relation",
    "delta",
    "mean_runs",
    "best_params",
    "best_score",
    "epsilon",
    "single_run_epsilon",
    "method",
    "seeded",
    "assumptions",
    "report",
]


def test_demo_prints_the_report(ask):
    found = ask("demo --candidate centroids --mean 3")
    assert (found.code, found.err) == (0, "")
    text = " ".join(found.out.split())
    curve = PrivacyCurve.gaussian(4.0)
    price = best_of(curve, TruncatedNegativeBinomial(3, 2)).epsilon(1e-6)
    shown = float(text.partition("before a row is read: epsilon = ")[2].split()[0].rstrip("."))
    assert price <= shown <= price + 0.011
    assert "it is not published, nor is any try but the best" in text
    assert "Privacy spent, at delta = 1e-06" in found.out
    assert "Assumes" in text


def test_demo_as_json_holds_nothing_but_what_is_published(ask):
    data = ask("demo --candidate centroids --mean 3 --json").json
    assert list(data) == KEYS  # no number of tries, no losers, no times
    assert set(data["best_params"]) == {"radius", "pseudo_count"}
    assert data["best_score"] > 0.5
    assert data["seeded"] is False


def test_demo_without_diffprivlib_says_so(ask, monkeypatch):
    monkeypatch.setitem(sys.modules, "diffprivlib", None)
    monkeypatch.setitem(sys.modules, "diffprivlib.models", None)
    found = ask("demo --mean 2")
    assert (found.code, found.err) == (0, "")
    assert "Candidate: class centroids with Gaussian noise." in found.out


def test_demo_with_diffprivlib(ask):
    pytest.importorskip("diffprivlib.models", exc_type=Exception)
    found = ask("demo --mean 2")
    assert (found.code, found.err) == (0, "")
    assert "Candidate: diffprivlib's LogisticRegression." in found.out


def test_seed_warns_and_repeats(ask):
    line = "demo --candidate centroids --mean 3 --seed 5 --json"
    first, second = ask(line), ask(line)
    assert first.err.startswith("skdptune: warning: random_state was given")
    assert first.err.count("\n") == 1
    assert first.json == second.json
    assert first.json["seeded"] is True


@pytest.mark.parametrize("ending", ["html", "json", "md"])
def test_report_is_written(ask, tmp_path, ending):
    path = tmp_path / f"report.{ending}"
    found = ask("demo", "--candidate", "centroids", "--mean", "2", "--report", str(path))
    assert (found.code, found.err) == (0, "")
    assert f"report: {path}" in " ".join(found.out.split())
    assert "zero-out" in path.read_text(encoding="utf-8")


def test_endings_may_be_capitals(ask, tmp_path):
    path = tmp_path / "REPORT.MD"
    assert ask("demo", "--candidate", "centroids", "--mean", "2", "--report", str(path)).code == 0
    assert path.read_text(encoding="utf-8").startswith("#")


def test_what_is_reached_is_quoted_with_its_mean():
    assert "with a mean of 20 tries (here: 5) reach 0.94" in _expected("diffprivlib's LogisticRegression", 5.0)
    assert "with a mean of 20 tries reach 0.94" in _expected("diffprivlib's LogisticRegression", 20.0)
    assert "0.94" not in _expected("class centroids with Gaussian noise", 20.0)


def test_a_very_long_demonstration_is_announced(capsys):
    _warn_of_hours(Geometric(1e6))
    said = capsys.readouterr().err
    assert "trains 1,000,000 models on average" in said and "Ctrl-C" in said
    _warn_of_hours(Geometric(20))
    assert capsys.readouterr().err == ""


def test_a_report_never_replaces_a_file_unasked(ask, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "filed.md").write_text("mine")
    (tmp_path / "folder.md").mkdir()
    (tmp_path / "dangling.md").symlink_to(tmp_path / "nowhere.md")
    for name, says in (("filed.md", "exists"), ("folder.md", "is a folder"), ("dangling.md", "exists")):
        found = ask("demo", "--candidate", "centroids", "--mean", "2", "--report", name)
        assert (found.code, found.out) == (2, "")
        assert says in found.err
    assert (tmp_path / "filed.md").read_text() == "mine"
    assert ask("demo --candidate centroids --mean 2 --report filed.md --force").code == 0
    assert "zero-out" in (tmp_path / "filed.md").read_text(encoding="utf-8")


# -- the candidate -----------------------------------------------------------------------------


def _sums(model, X, y):
    """The sums that noise is added to, recovered by a noise of (nearly) nothing."""
    quiet = clone(model).set_params(noise_multiplier=1e-12, random_state=0)
    fitted = quiet.fit(X, y)
    counts = np.array([[np.sum(y == label)] for label in fitted.classes_]) + fitted.pseudo_count
    return np.hstack([(fitted.centroids_ - fitted.centre) * counts, fitted.radius * counts])


@pytest.mark.parametrize("radius", [0.5, 3.0, 50.0])
def test_one_row_moves_the_sums_by_at_most_the_norm_that_is_noised(radius):
    rng = np.random.default_rng(0)
    X, y = rng.normal(scale=9.0, size=(40, 6)), np.arange(40) % 3
    model = NoisyCentroids(radius=radius, centre=1.0, classes=[0, 1, 2])
    whole = _sums(model, X, y)
    for row in range(len(X)):
        without = _sums(model, np.delete(X, row, axis=0), np.delete(y, row))
        assert np.linalg.norm(whole - without) <= np.sqrt(2) * radius * (1 + 1e-6)


def test_noise_is_as_large_as_the_price_says():
    # no row near the class: counts are noise alone, and a large pseudo count makes them all but constant
    model = NoisyCentroids(radius=2.0, noise_multiplier=3.0, classes=[0], pseudo_count=1e6, random_state=0)
    fitted = model.fit(np.zeros((1, 4000)), np.zeros(1, dtype=int))
    noise = fitted.centroids_ * 1e6
    assert np.std(noise) == pytest.approx(3.0 * np.sqrt(2) * 2.0, rel=0.05)


def test_the_candidate_in_a_search_survives_absent_classes_and_relations():
    X, y = load_digits(return_X_y=True)
    for relation in ("zero-out", "replace-one"):
        search = PrivateRandomSearchCV(
            NoisyCentroids(centre=8.0), {"radius": [16.0, 32.0]}, n_iter=2, classes=list(range(11)), relation=relation
        ).fit(X, y)
        assert search.best_estimator_.classes_.tolist() == list(range(11))
        single = PrivacyCurve.gaussian(4.0, relation=relation).epsilon(1e-6)
        assert search.privacy_spent_.single_run.epsilon(1e-6) == pytest.approx(single)
