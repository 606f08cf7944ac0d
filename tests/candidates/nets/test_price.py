"""What is priced is what is trained: rates, steps, curves, budgets."""

import math
import pickle

import numpy as np
import pytest

pytest.importorskip("torch")

from dp_accounting.pld import privacy_loss_distribution as plds  # noqa: E402
from sklearn.base import clone  # noqa: E402

from skdptune._exceptions import (  # noqa: E402
    CandidateRefusedError,
    InvalidParameterError,
    InvalidTypeError,
    PricingError,
)
from skdptune.accounting import PrivacyCurve  # noqa: E402
from skdptune.candidates import find_adapter  # noqa: E402
from skdptune.candidates.nets import DPNeuralNetClassifier, DPNeuralNetRegressor  # noqa: E402
from skdptune.candidates.nets import _engine as engine  # noqa: E402
from skdptune.candidates.nets._noise import GaussianNoise, PoissonSampler  # noqa: E402
from skdptune.candidates.nets._terms import sgd_terms, steps_per_epoch  # noqa: E402

ROWS = np.random.default_rng(0).normal(size=(49, 4))
LABELS = (ROWS[:, 0] > 0).astype(int)


class Counting(PoissonSampler):
    """Counts what the loop really draws."""

    made = []  # noqa: RUF012

    def __init__(self, *args):
        super().__init__(*args)
        self.sizes = []
        Counting.made.append(self)

    def draw(self):
        drawn = super().draw()
        self.sizes.append(len(drawn))
        return drawn


class CountingNoise(GaussianNoise):
    """Counts the noisy tensors."""

    made = []  # noqa: RUF012

    def __init__(self, *args):
        super().__init__(*args)
        self.calls = 0
        CountingNoise.made.append(self)

    def like(self, tensor):
        self.calls += 1
        return super().like(tensor)


@pytest.fixture
def counted(monkeypatch):
    Counting.made, CountingNoise.made = [], []
    monkeypatch.setattr(engine, "PoissonSampler", Counting)
    monkeypatch.setattr(engine, "GaussianNoise", CountingNoise)


def test_no_step_is_lost_to_rounding():
    assert [n for n in range(1, 2000) if steps_per_epoch(1 / n) != n] == []
    assert [n for n in range(2, 2000) if steps_per_epoch(1 / (n - 0.5)) != n] == []


@pytest.mark.parametrize(
    ("net", "rate", "steps", "divisor"),
    [
        (DPNeuralNetClassifier(sample_rate=0.3, max_epochs=2), 0.3, 8, 14.7),
        (DPNeuralNetClassifier(expected_batch_size=1, max_epochs=1), 1 / 49, 49, 1.0),
        (DPNeuralNetClassifier(expected_batch_size=100, steps=3), 1.0, 3, 49.0),
        (DPNeuralNetClassifier(expected_batch_size=9.5, max_epochs=1), 9.5 / 49, 6, 9.5),
        (DPNeuralNetClassifier(max_epochs=2), 1 / 7, 14, 7.0),
        (DPNeuralNetClassifier(sample_rate=0.1, n_samples=70, steps=5), 0.1, 5, 7.0),
    ],
)
def test_steps_and_rates_are_those_of_the_price(counted, net, rate, steps, divisor):
    terms = sgd_terms(net, 49)
    assert terms.sample_rate == pytest.approx(rate, rel=1e-15)
    assert (terms.steps, terms.divisor) == (steps, pytest.approx(divisor))
    net.fit(ROWS, LABELS)
    (sampler,), (noise,) = Counting.made, CountingNoise.made
    assert len(sampler.sizes) == steps  # empty batches included
    assert sampler.rate == terms.sample_rate and sampler.threshold <= sampler.rate
    parameters = sum(1 for _ in net.module_.parameters())
    assert noise.calls == steps * parameters  # every step is noisy
    assert net.privacy_curve(49) == PrivacyCurve.dp_sgd(1.0, terms.sample_rate, steps)


def test_the_realised_rate():
    sampler = PoissonSampler(4_000, 0.03, 12345 << 140)
    sizes = np.array([len(sampler.draw()) for _ in range(500)])
    spread = math.sqrt(4_000 * 0.03 * 0.97)
    assert abs(sizes.mean() - 120) < 5 * spread / math.sqrt(500)
    assert 0.8 < sizes.std() / spread < 1.2  # coins, not batches of one size


def test_empty_batches_are_noisy_steps(counted):
    net = DPNeuralNetClassifier(expected_batch_size=1, steps=60).fit(ROWS[:4], [0, 1, 0, 1])
    (sampler,) = Counting.made
    empty = np.mean(np.array(sampler.sizes) == 0)
    assert len(sampler.sizes) == 60 and 0.1 < empty < 0.6  # (3/4)^4 = 0.32
    assert CountingNoise.made[0].calls == 60 * sum(1 for _ in net.module_.parameters())


@pytest.mark.parametrize(("noise", "rate", "steps"), [(1.0, 0.01, 300), (0.7, 0.2, 20), (4.0, 0.5, 100)])
def test_epsilon_is_the_accountants_on_the_same_grid(noise, rate, steps):
    net = DPNeuralNetClassifier(noise_multiplier=noise, sample_rate=rate, steps=steps)
    own = net.privacy_curve(1000).epsilon(1e-5)
    one = plds.from_gaussian_mechanism(noise, sampling_prob=rate, value_discretization_interval=1e-4)
    theirs = one.self_compose(steps).get_epsilon_for_delta(1e-5)
    assert own == pytest.approx(theirs, abs=1e-6)


def test_epsilon_is_opacus_own_within_its_error():
    from opacus.accountants import PRVAccountant

    accountant = PRVAccountant()
    accountant.history = [(1.0, 0.01, 300)]
    error = 0.01
    theirs = accountant.get_epsilon(delta=1e-5, eps_error=error)
    own = DPNeuralNetClassifier(noise_multiplier=1.0, sample_rate=0.01, steps=300).privacy_curve(9).epsilon(1e-5)
    assert abs(own - theirs) <= 2 * error


@pytest.mark.parametrize("relation", ["zero-out", "replace-one", "add-remove"])
def test_each_relation_has_its_price(relation):
    net = DPNeuralNetClassifier(sample_rate=0.05, steps=40, n_samples=500)
    curve = net.privacy_curve(400, relation)
    assert curve == PrivacyCurve.dp_sgd(1.0, 0.05, 40, relation=relation)
    if relation == "replace-one":
        assert curve.epsilon(1e-5) > 1.2 * net.privacy_curve(400).epsilon(1e-5)


def test_add_remove_needs_a_public_number_of_rows():
    adapter = find_adapter(DPNeuralNetClassifier(sample_rate=0.05, steps=40))
    with pytest.raises(CandidateRefusedError, match="n_samples of a net must be set"):
        adapter.check("add-remove")
    with pytest.raises(CandidateRefusedError, match="n_samples"):
        adapter.privacy_curve(100, "add-remove")
    find_adapter(DPNeuralNetClassifier(sample_rate=0.05, steps=40, n_samples=90)).check("add-remove")


BAD = [
    ({"noise_multiplier": 0}, "noise_multiplier must be"),
    ({"noise_multiplier": "1"}, "noise_multiplier must be"),
    ({"sample_rate": 1.5}, "sample_rate must be"),
    ({"sample_rate": 0.1, "expected_batch_size": 3}, "must not both be set"),
    ({"expected_batch_size": -1}, "expected_batch_size must be"),
    ({"steps": 0}, "steps must be"),
    ({"steps": 2.5}, "steps must be"),
    ({"max_epochs": 0}, "max_epochs must be"),
    ({"n_samples": 0}, "n_samples must be"),
]


@pytest.mark.parametrize(("params", "message"), BAD)
def test_bad_numbers_are_refused_by_name(params, message):
    with pytest.raises((InvalidParameterError, InvalidTypeError), match=message):
        find_adapter(DPNeuralNetClassifier(**params)).check("zero-out")


# ---- budgets


def test_a_level_of_the_same_shape_gives_its_own_noise():
    net = DPNeuralNetClassifier(sample_rate=0.05, steps=40)
    family = find_adapter(net).level_family(100, "zero-out")
    assert net.privacy_curve(100) != family.curve(1.0)
    budgeted = find_adapter(net).with_budget(family.curve(1.37), 100, "zero-out")
    assert 1.37 <= budgeted.noise_multiplier < 1.37 * 1.0001


def test_a_level_is_the_worse_of_both_orders():
    one = PrivacyCurve.dp_sgd(1.37, 0.05, 40)
    level = find_adapter(DPNeuralNetClassifier(sample_rate=0.05, steps=40)).level_family(100, "zero-out").curve(1.37)
    epsilons = np.linspace(0.0, 6.0, 25)
    for side in (level.pair, level.pair.swap()):
        for own in (one.pair, one.pair.swap()):
            assert np.all(own.delta(epsilons) <= side.delta(epsilons) * (1 + 1e-12))
    assert one.epsilon(1e-5) <= level.epsilon(1e-5) < one.epsilon(1e-5) + 1e-4
    assert level == pickle.loads(pickle.dumps(level)) and one.lies_below(level)


@pytest.mark.parametrize(
    ("relation", "rate", "steps"),
    [
        ("zero-out", 0.1, 100),  # a larger rate: far dearer below a level in one order only
        ("zero-out", 1.0, 4),
        pytest.param("zero-out", 0.4, 50, marks=pytest.mark.slow),
        pytest.param("zero-out", 0.02, 250, marks=pytest.mark.slow),
        pytest.param("replace-one", 0.1, 100, marks=pytest.mark.slow),
        pytest.param("replace-one", 1.0, 4, marks=pytest.mark.slow),
    ],
)
def test_any_candidate_fits_below_one_level(relation, rate, steps):
    template = DPNeuralNetClassifier(sample_rate=0.05, steps=100)
    level = find_adapter(template).level_family(300, relation).curve(2.0)
    net = DPNeuralNetClassifier(sample_rate=rate, steps=steps)
    budgeted = find_adapter(net).with_budget(level, 300, relation)
    assert budgeted is not net and net.noise_multiplier == 1.0
    curve = budgeted.privacy_curve(300, relation)
    assert curve.lies_below(level)
    less = clone(budgeted).set_params(noise_multiplier=budgeted.noise_multiplier * 0.97)
    assert not less.privacy_curve(300, relation).lies_below(level)  # not wasteful
    if rate >= 0.05:  # a longer training at a lower rate pays for its Gaussian tail
        assert curve.epsilon(1e-5) > 0.6 * level.epsilon(1e-5)


def test_parts_that_differ_by_one_row_are_all_below():
    template = DPNeuralNetRegressor(expected_batch_size=10, steps=50)
    level = find_adapter(template).level_family(100, "zero-out").curve(2.0)
    budgeted = find_adapter(template).with_budget(level, 100, "zero-out")
    for size in (99, 100):
        assert budgeted.privacy_curve(size).lies_below(level)


def test_a_level_out_of_reach():
    net = DPNeuralNetClassifier(sample_rate=1.0, steps=10)
    with pytest.raises(PricingError, match="noise_multiplier of at most"):
        net.with_budget(PrivacyCurve.pure(1e-3), n_samples=10)
    with pytest.raises(InvalidParameterError, match="n_samples must be given"):
        net.with_budget(PrivacyCurve.gaussian(1.0))


def test_rdp_of_terms_that_do_not_depend_on_the_number_of_rows():
    net = DPNeuralNetClassifier(sample_rate=0.1, steps=20)
    np.testing.assert_array_equal(net.rdp_curve([2, 8]), net.privacy_curve(500).rdp([2, 8]))
    net = DPNeuralNetClassifier(n_samples=400)
    np.testing.assert_array_equal(net.rdp_curve([2, 8]), net.privacy_curve(400).rdp([2, 8]))
    with pytest.raises(CandidateRefusedError, match="n_samples of a net must be set for rdp_curve"):
        DPNeuralNetClassifier(expected_batch_size=10).rdp_curve([2])


@pytest.mark.parametrize("n_samples", [0, -5, 99.9, float("nan"), "many", True])
def test_a_price_needs_a_number_of_rows(n_samples):
    with pytest.raises((InvalidParameterError, InvalidTypeError), match="n_samples must be an integer"):
        DPNeuralNetClassifier().privacy_curve(n_samples)


def test_noise_too_small_to_be_priced():
    with pytest.raises(InvalidParameterError, match="noise_multiplier must be at least"):
        DPNeuralNetClassifier(noise_multiplier=1e-310).privacy_curve(10)
