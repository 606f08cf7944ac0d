"""What the diffprivlib adapters draw and spend: oracles, recorded budgets, and event tests."""

import os
import pickle
import secrets

import mpmath
import numpy as np
import pytest

from skdptune._exceptions import MissingDependencyError
from skdptune.candidates._diffprivlib import _library
from skdptune.candidates._diffprivlib._logistic import minimise, shrink_rows
from skdptune.candidates._diffprivlib._noise import bounded_laplace_scale
from skdptune.candidates._diffprivlib._pca import sample_direction
from skdptune.candidates._diffprivlib._randomness import ByteRandom

needs_library = pytest.mark.skipif(
    _library._complaint(_library._installed("diffprivlib"), _library._installed("scikit-learn"))
    is not None,
    reason="needs diffprivlib 0.6.6 with scikit-learn < 1.8",
)
SEED = 2**140 + 11


# -------------------------------------------------------------------------------- library versions


@pytest.mark.parametrize(
    ("versions", "text"),
    [
        ((None, "1.7.2"), "not installed: pip install 'diffprivlib==0.6.6' 'scikit-learn<1.8'"),
        (("0.6.5", "1.7.2"), "vetted on release 0.6.6 .* got diffprivlib 0.6.5"),
        (("0.6.6", "1.8.0"), "needs scikit-learn < 1.8 .*got scikit-learn 1.8.0"),
        (("0.6.6", "1.9.1"), "constructors break on 1.8 and its import on 1.9"),
    ],
)
def test_versions_that_were_not_vetted_are_refused(monkeypatch, versions, text):
    known = dict(zip(("diffprivlib", "scikit-learn"), versions, strict=True))
    monkeypatch.setattr(_library, "_installed", known.get)
    with pytest.raises(MissingDependencyError, match=text):
        _library.require_diffprivlib.__wrapped__()


# -------------------------------------------------------------------------------------- randomness


def test_byte_random_is_uniform_and_repeats_only_with_a_seed():
    rng = ByteRandom(SEED)
    draws = rng.random(200_000)
    assert draws.min() >= 0 and draws.max() < 1
    assert abs(draws.mean() - 0.5) < 0.005 and abs(draws.var() - 1 / 12) < 0.002
    singles = np.array([rng.random() for _ in range(20_000)])
    assert abs(singles.mean() - 0.5) < 0.01
    counts = np.bincount([rng.randint(5) for _ in range(20_000)], minlength=5)
    assert counts.size == 5 and np.all(np.abs(counts - 4000) < 300)
    assert rng.randint(3, 4) == 3
    assert isinstance(rng, secrets.SystemRandom)
    assert ByteRandom(SEED).getrandbits(300) == ByteRandom(SEED).getrandbits(300)
    assert ByteRandom().getrandbits(300) != ByteRandom().getrandbits(300)
    assert 0 <= rng.getrandbits(3) < 8
    assert len(rng.randbytes(10_000)) == 10_000


def test_byte_random_can_be_neither_copied_nor_pickled():
    with pytest.raises(NotImplementedError):
        pickle.dumps(ByteRandom())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_copy_reads_other_bytes(monkeypatch):
    rng = ByteRandom()
    rng.random()
    twin = ByteRandom()
    twin._buffer, twin._position = rng._buffer, rng._position
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert rng.getrandbits(128) != twin.getrandbits(128)


# ------------------------------------------------------------------------------------------- noise


@pytest.mark.parametrize("epsilon", [1e-9, 1e-4, 0.3, 5.0, 40.0])
@pytest.mark.parametrize("ratio", [1.0, 1.5, 30.0, 1e6, np.inf])
def test_bounded_laplace_scale_spends_epsilon_and_no_more(epsilon, ratio):
    scale = bounded_laplace_scale(epsilon, 1.0, ratio)
    with mpmath.workdps(60):
        b = mpmath.mpf(scale)
        s = 1 / b
        width = mpmath.inf if np.isinf(ratio) else mpmath.mpf(ratio) / b
        far = mpmath.mpf(0) if np.isinf(ratio) else mpmath.exp(-width)
        beyond = mpmath.mpf(0) if np.isinf(ratio) else mpmath.exp(-(width - s))
        cost = s + mpmath.log((2 - mpmath.exp(-s) - beyond) / (1 - far))
        assert cost <= epsilon * (1 + mpmath.mpf(10) ** -12)
        assert cost >= epsilon * (1 - mpmath.mpf(10) ** -9)


@needs_library
def test_bounded_laplace_scale_agrees_with_the_library_where_it_has_digits():
    from diffprivlib.mechanisms import LaplaceBoundedDomain

    for epsilon, upper in [(1.0, 3.0), (0.2, 10.0), (4.0, np.inf)]:
        theirs = LaplaceBoundedDomain(epsilon=epsilon, sensitivity=1, lower=0, upper=upper)
        assert bounded_laplace_scale(epsilon, 1.0, upper) == pytest.approx(
            theirs._find_scale(), rel=1e-9
        )


def _record_spends(monkeypatch):
    from diffprivlib.mechanisms.base import DPMechanism

    spends = []
    constructor = DPMechanism.__init__

    def watched(self, *, epsilon, delta, random_state=None):
        spends.append((type(self).__name__, epsilon))
        constructor(self, epsilon=epsilon, delta=delta, random_state=random_state)

    monkeypatch.setattr(DPMechanism, "__init__", watched)
    return spends


@needs_library
def test_slices_add_up_to_the_price(monkeypatch):
    """Every mechanism built during a fit, added up along what one row can touch."""
    from diffprivlib import models

    from skdptune.candidates import find_adapter

    spends = _record_spends(monkeypatch)
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (60, 4))
    y = (X[:, 0] > 0).astype(int)
    eps = 0.9

    def total(estimator, target, classes):
        spends.clear()
        find_adapter(estimator).fit(X, target, classes=classes, seed=None)
        return sum(e for _, e in spends)

    classes = np.array([0, 1, 2])
    # one counting mechanism serves all classes, so a class pays eps/3 once and 2 eps/3 for moments
    got = total(models.GaussianNB(epsilon=eps, bounds=(-1, 1)), y, classes)
    assert got == pytest.approx(eps / 3 + 3 * (2 * eps / 3), rel=1e-9) and got < 7 * eps / 3
    got = total(models.LogisticRegression(epsilon=eps, data_norm=1, fit_intercept=False), y, classes)
    assert got == pytest.approx(eps, rel=1e-9) and got < eps
    got = total(
        models.LinearRegression(epsilon=eps, bounds_X=(-1, 1), bounds_y=(0, 1), fit_intercept=False),
        X[:, 0],
        None,
    )
    assert got == pytest.approx(eps, rel=1e-9) and got < eps
    got = total(models.StandardScaler(epsilon=eps, bounds=(-1, 1)), None, None)
    assert got == pytest.approx(eps, rel=1e-9) and got < eps
    got = total(models.StandardScaler(epsilon=eps, bounds=(-1, 1), with_std=False), None, None)
    assert got == pytest.approx(eps, rel=1e-9)
    total(models.DecisionTreeClassifier(epsilon=eps, bounds=(-1, 1), classes=[0, 1], max_depth=3), y, [0, 1])
    assert len(spends) == 8 and {name for name, _ in spends} == {"PermuteAndFlip"}
    assert all(e <= eps for _, e in spends)


@needs_library
def test_perturbation_is_the_library_mechanisms(monkeypatch):
    from diffprivlib.mechanisms import Vector

    from skdptune.candidates._diffprivlib._logistic import _perturbation

    for epsilon, penalty in [(1.0, 1.0), (0.1, 0.01), (0.4, 1.1), (9.0, 1e-6)]:
        noise, extra = _perturbation(3, epsilon, penalty, ByteRandom(SEED))
        mechanism = Vector(
            epsilon=epsilon,
            function_sensitivity=0.25,
            data_sensitivity=1.0,
            dimension=3,
            alpha=penalty,
            random_state=ByteRandom(SEED),
        )
        gradient = mechanism.randomise(lambda w: (0.0, np.zeros(3)))(np.ones(3))[1]
        assert np.allclose(gradient, noise + extra, rtol=1e-12)
        # the guarantee that the proof wants of the pair (share spent on b, extra penalty)
        on_noise = epsilon - 2 * np.log1p(0.25 / penalty) if extra == 0 else epsilon / 2
        assert on_noise + 2 * np.log1p(0.25 / (penalty + extra)) <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize("shape", [(200, 3), (50, 90), (1, 2)])
def test_minimiser_leaves_no_gradient(shape):
    rng = np.random.default_rng(1)
    rows = shrink_rows(rng.normal(size=shape))
    assert np.linalg.norm(rows, axis=1).max() <= 1.0
    target = (rows[:, 0] > 0).astype(float)
    for penalty, size in [(1.0, 1.0), (1e-3, 30.0), (1e-3, 1e5)]:
        noise = size * rng.normal(size=shape[1])
        w = minimise(rows, target, penalty, noise)
        share = 1 / (1 + np.exp(-np.clip(rows @ w, -700, 700)))
        gradient = rows.T @ (share - target) + penalty * w + noise
        assert np.linalg.norm(gradient) <= 2e-9 * max(1.0, np.linalg.norm(noise) / shape[1])


@pytest.mark.statistical
def test_directions_have_the_right_density():
    """In the plane the density of the angle is known; the library's own sampler misses it by far."""
    moments, epsilon = np.diag([8.0, 0.0]), 2.0
    angle = (np.arange(20000) + 0.5) * np.pi / 20000
    density = np.exp(epsilon / 4 * 8 * np.cos(angle) ** 2)
    exact = density[np.abs(np.cos(angle)) > 0.8].sum() / density.sum()
    rng = ByteRandom(SEED)
    n = 4000
    hits = sum(abs(sample_direction(moments, epsilon, rng)[0]) > 0.8 for _ in range(n))
    assert abs(hits / n - exact) < 4.5 * np.sqrt(exact * (1 - exact) / n)


@pytest.mark.statistical
def test_directions_in_more_dimensions_have_the_right_second_moment():
    values = np.array([0.0, 3.0, 5.0, 9.0])
    rng, check = ByteRandom(SEED), np.random.default_rng(5)
    sphere = check.normal(size=(400_000, 4))
    sphere /= np.linalg.norm(sphere, axis=1, keepdims=True)
    weight = np.exp((sphere**2 @ values) * 1.5 / 4)
    exact = weight @ sphere**2 / weight.sum()
    draws = np.array([sample_direction(np.diag(values), 1.5, rng) for _ in range(4000)])
    assert np.allclose((draws**2).mean(axis=0), exact, atol=0.02)
    assert np.allclose(draws.mean(axis=0), 0, atol=0.05)


@needs_library
def test_pca_finds_the_planted_direction_and_is_orthonormal():
    from diffprivlib.models import PCA

    from skdptune.candidates import find_adapter

    rng = np.random.default_rng(2)
    X = rng.normal(size=(4000, 6)) * np.array([0.05, 0.05, 1.0, 0.05, 0.3, 0.05])
    for n_components in (2, 6, None):
        adapter = find_adapter(PCA(n_components, epsilon=20.0, data_norm=3.0, bounds=(-3, 3)))
        model = adapter.publish(adapter.fit(X, None, classes=None, seed=SEED))
        k = n_components or 6
        assert model.components_.shape == (k, 6)
        assert np.allclose(model.components_ @ model.components_.T, np.eye(k), atol=1e-9)
        assert abs(model.components_[0, 2]) > 0.9
        assert np.all(np.diff(model.explained_variance_) <= 0)
        assert model.transform(X).shape == (4000, k)


@needs_library
def test_scaler_comes_close_at_large_epsilon():
    from diffprivlib.models import StandardScaler

    from skdptune.candidates import find_adapter

    rng = np.random.default_rng(3)
    X = np.clip(rng.normal(0.2, 0.3, size=(5000, 2)), -2, 2)
    adapter = find_adapter(StandardScaler(epsilon=50.0, bounds=(-2, 2)))
    Z = adapter.publish(adapter.fit(X, None, classes=None, seed=SEED)).transform(X)
    assert np.allclose(Z.mean(axis=0), 0, atol=0.05) and np.allclose(Z.std(axis=0), 1, atol=0.05)
    plain = find_adapter(StandardScaler(bounds=(-2, 2), with_mean=False, with_std=False))
    assert np.array_equal(plain.publish(plain.fit(X, None, classes=None, seed=1)).transform(X), X)


# ------------------------------------------------------------------------------------- event tests


def _log_ratio_floor(hits, misses):
    """Return a lower confidence bound (4 standard errors) on log(P(hit)/P(miss))."""
    return np.log(max(hits, 1) / max(misses, 1)) - 4 * np.sqrt(1 / max(hits, 1) + 1 / max(misses, 1))


def _event_floor(make, first, second, event, n):
    """Return the lower bound on the privacy loss of an event, in the worse direction."""
    counts = []
    for k, (X, y, classes) in enumerate((first, second)):
        adapter = make()
        counts.append(
            sum(event(adapter.fit(X, y, classes=classes, seed=SEED + n * k + i)) for i in range(n))
        )
    a, b = counts
    return max(_log_ratio_floor(a, b), _log_ratio_floor(b, a)), np.log(max(a, 1) / max(b, 1))


@needs_library
@pytest.mark.slow
@pytest.mark.statistical
def test_logistic_regression_keeps_its_price_where_the_library_does_not():
    """The neighbours of the intercept's fault; a constant column stands in for the intercept."""
    from diffprivlib.models import LogisticRegression

    from skdptune.candidates import find_adapter

    def make():
        return find_adapter(LogisticRegression(epsilon=1.0, data_norm=2**0.5, fit_intercept=False))

    classes = np.array([0, 1])
    one = ([[1.0, 1.0], [0.0, 1.0]], [1, 0], classes)
    two = ([[0.0, 1.0], [0.0, 1.0]], [1, 0], classes)
    blank = ([[np.nan, np.nan], [0.0, 1.0]], [1, 0], classes)  # a missing row counts as none

    def event(fitted):
        w, b = fitted.model.coef_[0]
        return 0.5 < w < 14 and abs(w + b) < 1.5

    floor, _ = _event_floor(make, one, two, event, 2000)
    assert floor <= 1.0
    floor, _ = _event_floor(make, one, blank, event, 2000)
    assert floor <= 0.5


@needs_library
@pytest.mark.slow
@pytest.mark.statistical
def test_naive_bayes_hides_whether_a_class_has_a_row():
    from diffprivlib.models import GaussianNB

    from skdptune.candidates import find_adapter

    def make():
        return find_adapter(GaussianNB(epsilon=1.0, bounds=(-1, 1)))

    classes = np.array([0, 1])
    here = ([[0.5]] * 5 + [[1.0]], [0] * 5 + [1], classes)
    gone = ([[0.5]] * 5 + [[1.0]], [0] * 5 + [2], classes)  # an undeclared label counts as none
    for event in (
        lambda f: f.model.theta_[1, 0] > 0.9,
        lambda f: f.model.theta_[1, 0] == 1.0 and f.model.class_count_[1] == 1,
        lambda f: f.model.class_count_[1] <= 1,
    ):
        floor, _ = _event_floor(make, here, gone, event, 1500)
        assert floor <= 1.0


@needs_library
@pytest.mark.slow
@pytest.mark.statistical
def test_tree_leaf_costs_epsilon_without_a_row_and_two_with_another():
    from diffprivlib.models import DecisionTreeClassifier

    from skdptune.candidates import find_adapter

    def make():
        return find_adapter(
            DecisionTreeClassifier(epsilon=1.0, bounds=(0, 1), classes=[0, 1], max_depth=1)
        )

    classes = np.array([0, 1])
    X = [[0.0]] * 11  # always in the left leaf
    base = (X, [0] * 5 + [1] * 6, classes)
    dropped = (X, [0] * 5 + [1] * 5 + [9], classes)
    changed = (X, [0] * 6 + [1] * 5, classes)

    def event(fitted):
        return fitted.predict([[0.0]])[0] == 0

    floor, measured = _event_floor(make, base, dropped, event, 2000)
    assert floor <= 1.0
    floor, measured = _event_floor(make, base, changed, event, 2000)
    assert floor <= 2.0 and abs(measured) > 0.5


@needs_library
@pytest.mark.statistical
def test_leaf_labels_follow_permute_and_flip_afresh_in_every_fit():
    """Two labels with counts 3 and 4: the rarer wins with probability exp(-epsilon) / 2."""
    from diffprivlib.models import DecisionTreeClassifier

    from skdptune.candidates import find_adapter

    adapter = find_adapter(
        DecisionTreeClassifier(epsilon=0.5, bounds=(0, 1), classes=[0, 1], max_depth=1)
    )
    X, y = np.zeros((7, 1)), [0] * 3 + [1] * 4
    n = 1500
    rare = sum(
        adapter.fit(X, y, classes=[0, 1], seed=SEED + i).predict([[0.0]])[0] == 0 for i in range(n)
    )
    expected = np.exp(-0.5) / 2
    assert abs(rare / n - expected) < 4.5 * np.sqrt(expected * (1 - expected) / n)
