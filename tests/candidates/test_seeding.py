"""Independent noise in every run, whatever clone, a global seed, a fork or a thread would do."""

import collections
import copy
import multiprocessing
import pickle
import random
import threading

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, clone
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import make_pipeline

from skdptune._exceptions import CandidateRefusedError
from skdptune.candidates._contents import is_generator
from skdptune.candidates._entropy import HashedSequence
from skdptune.candidates._generators import SharedProcessError, borrowed_global_generators, fix_global_generators
from skdptune.candidates._seeding import (
    RunRandomState,
    clear_random_states,
    entropy_for,
    hold_global_generators,
    isolated_global_generators,
    params_of,
    random_state_names,
    refuse_hidden_seeds,
    set_random_states,
    strip_seeds,
)


class Holder(BaseEstimator):
    def __init__(self, inner=None, random_state=None, seed_of_garden=5):
        self.inner = inner
        self.random_state = random_state
        self.seed_of_garden = seed_of_garden


def test_entropy_has_256_bits_and_never_repeats_without_a_seed():
    values = [entropy_for(None) for _ in range(200)]
    assert len(set(values)) == 200
    assert max(v.bit_length() for v in values) > 250


def test_entropy_is_derived_from_seed_and_path():
    assert entropy_for(3, "a", 1) == entropy_for(3, "a", 1)
    values = {entropy_for(3, "a", 1), entropy_for(3, "a", 2), entropy_for(4, "a", 1), entropy_for(3)}
    assert len(values) == 4
    assert entropy_for(3, "a1") != entropy_for(3, "a", 1)
    assert entropy_for(3, "a', 'b") != entropy_for(3, "a", "b")
    assert entropy_for(1 << 200, "a") != entropy_for(1 << 201, "a")  # no bit of the seed is dropped


def test_all_256_bits_of_entropy_reach_the_generator():
    draws = {RunRandomState(1 << bit).bytes(16) for bit in range(256)}
    assert len(draws) == 256


def test_spawned_generators_are_new_at_every_call_and_repeat_with_the_entropy():
    def draws():
        generator = np.random.default_rng(RunRandomState(5))
        children = [*generator.spawn(2), *generator.spawn(1), generator]
        return [child.random() for child in children]

    first = draws()
    assert len(set(first)) == 4
    assert draws() == first


@pytest.mark.parametrize("kind", [np.random.PCG64, np.random.Philox, np.random.SFC64, np.random.MT19937])
def test_hashed_words_seed_every_bit_generator(kind):
    first, same, other = (np.random.Generator(kind(HashedSequence(entropy))).random() for entropy in (1, 1, 2))
    assert first == same != other


def test_a_sequence_is_withheld_as_the_generator_is_that_it_seeds():
    assert is_generator(RunRandomState(1)._bit_generator.seed_seq)


def test_run_random_state_cannot_be_replayed():
    state = RunRandomState(entropy_for(None))
    assert copy.deepcopy(state) is state and copy.copy(state) is state
    assert clone(Holder(random_state=state)).random_state is state
    first, second = pickle.loads(pickle.dumps(state)), pickle.loads(pickle.dumps(state))
    draws = {s.normal() for s in (state, first, second)}
    assert len(draws) == 3


def test_random_states_are_found_at_every_depth():
    holder = Holder(inner=Holder(inner=make_pipeline(RBFSampler())))
    assert random_state_names(holder) == [
        "inner__inner__rbfsampler__random_state",
        "inner__random_state",
        "random_state",
    ]
    assert random_state_names(object()) == []


@pytest.mark.parametrize("template_seed", [0, None])
def test_every_random_state_gets_its_own_stream(template_seed):
    def draws(seed):
        holder = Holder(inner=Holder(random_state=template_seed), random_state=template_seed)
        set_random_states(holder, seed)
        return holder.random_state.normal(), holder.inner.random_state.normal()

    a, b = draws(entropy_for(1)), draws(entropy_for(1))
    assert a == b and a[0] != a[1]
    c, d = draws(None), draws(None)
    assert len({*c, *d}) == 4


def test_clearing_and_stripping():
    holder = Holder(inner=Holder(random_state=1), random_state=2)
    clear_random_states(holder)
    assert holder.random_state is None and holder.inner.random_state is None
    members = np.empty(1, dtype=object)
    members[0] = Holder(random_state=4)
    holder.members_ = members
    holder.deep_ = {"k": [(Holder(random_state=np.random.RandomState(3)),)]}
    strip_seeds(holder)
    assert members[0].random_state is None
    assert holder.deep_["k"][0][0].random_state is None


def test_stripping_survives_cycles():
    holder = Holder(random_state=1)
    holder.self_ = holder
    assert strip_seeds(holder).random_state is None


def test_a_global_seed_does_not_fix_the_noise():
    draws = []
    for _ in range(20):
        np.random.seed(0)
        random.seed(0)
        with isolated_global_generators():
            draws += [np.random.normal(), random.gauss(0, 1), np.random.normal(), random.random()]
    assert len(set(draws)) == 80


def test_a_seed_repeats_the_block():
    def draw():
        with isolated_global_generators(12345):
            return np.random.normal(), random.random()

    assert draw() == draw()


@pytest.mark.parametrize("fails", [False, True])
def test_the_callers_state_comes_back(fails):
    np.random.seed(4)
    random.seed(4)
    expected = np.random.normal(size=3).tolist(), [random.random() for _ in range(3)]
    np.random.seed(4)
    random.seed(4)
    try:
        with isolated_global_generators():
            np.random.normal(size=7)
            with isolated_global_generators():
                random.random()
            if fails:
                raise RuntimeError
    except RuntimeError:
        pass
    assert np.random.normal(size=3).tolist() == expected[0]
    assert [random.random() for _ in range(3)] == expected[1]


def test_a_nested_block_does_not_bring_back_a_stale_state():
    draws = []
    with isolated_global_generators():
        for _ in range(10):
            with isolated_global_generators():
                draws.append(np.random.normal())
            draws.append(np.random.normal())
    assert len(set(draws)) == 20


def test_threads_never_draw_the_same_numbers():
    draws, lock = [], threading.Lock()
    gate = threading.Barrier(8)

    def work():
        gate.wait()
        for _ in range(60):
            with isolated_global_generators():
                mine = [np.random.normal(), np.random.normal(), random.random()]
            with lock:
                draws.extend(mine)

    np.random.seed(1)
    before = np.random.get_state()[1].copy()
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(draws)) == 8 * 60 * 3
    assert np.array_equal(np.random.get_state()[1], before)


def _child(queue, nested):
    if nested:
        queue.put(np.random.normal())  # forked inside a block: not even this may repeat
        return
    with isolated_global_generators():
        queue.put(np.random.normal())


@pytest.mark.parametrize("nested", [False, True])
def test_forked_workers_have_their_own_noise(nested):
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    workers = [context.Process(target=_child, args=(queue, nested)) for _ in range(4)]
    np.random.seed(0)
    if nested:
        with isolated_global_generators():
            for worker in workers:
                worker.start()
            here = np.random.normal()
    else:
        for worker in workers:
            worker.start()
        here = np.random.normal()
    draws = [queue.get() for _ in workers] + [here]
    for worker in workers:
        worker.join()
    assert len(set(draws)) == 5


def _holding_child(queue):
    for _ in range(2):
        hold_global_generators()
    draws = []
    for seed in (1, 2, 1):
        np.random.seed(0)
        with isolated_global_generators(seed):
            draws.append((np.random.normal(), random.random()))
    queue.put((draws, np.random.normal()))


def test_runs_may_keep_the_generators_of_a_worker():
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    worker = context.Process(target=_holding_child, args=(queue,))
    worker.start()
    draws, later = queue.get()
    worker.join()
    assert draws[0] == draws[2] != draws[1]  # every run is reseeded all the same
    assert later != np.random.RandomState(0).normal()  # what was there before is not put back


class Own(BaseEstimator):
    """Has its own idea of what its parameters are."""

    def __init__(self, a=1):
        self.a = a

    def get_params(self, deep=True):
        return {"a": self.a, "b": 2}


@pytest.mark.parametrize(
    "estimator",
    [Holder(), Holder(inner=RBFSampler(gamma=2.0)), Holder(inner=RBFSampler), make_pipeline(RBFSampler()), Own()],
    ids=["plain", "nested", "class", "pipeline", "own"],
)
def test_parameters_are_those_of_get_params(estimator):
    for _ in range(2):  # the second time from memory
        for deep in (False, True):
            assert params_of(estimator, deep) == estimator.get_params(deep)
    fresh = type(estimator)(**{**estimator.get_params(deep=False)}) if not isinstance(estimator, Own) else Own(5)
    assert params_of(fresh) == fresh.get_params(deep=False)


# ---- seeds that a run could not replace


class Noise:
    """A source of noise of one's own."""

    def __init__(self, generator=None):
        self.generator = generator


class Seeded(BaseEstimator):
    def __init__(self, noise_seed=None, rng_=None, shuffle_random_state=None, noiseGenerator=None, noise=None):
        self.noise_seed = noise_seed
        self.rng_ = rng_
        self.shuffle_random_state = shuffle_random_state
        self.noiseGenerator = noiseGenerator
        self.noise = noise


@pytest.mark.parametrize("name", ["noise_seed", "rng_", "shuffle_random_state", "noiseGenerator"])
@pytest.mark.parametrize("value", [0, "text", np.random.default_rng(0)])
def test_a_seed_of_any_name_is_refused(name, value):
    with pytest.raises(CandidateRefusedError, match=f"{name} of .* must not hold a seed or generator"):
        refuse_hidden_seeds(Seeded(**{name: value}))
    with pytest.raises(CandidateRefusedError, match=f"inner__{name} of Holder must not hold"):
        refuse_hidden_seeds(Holder(inner=Seeded(**{name: value})))


def test_unset_seeds_and_names_that_only_begin_so_are_taken():
    refuse_hidden_seeds(Holder(inner=Seeded(), random_state=3))


@pytest.mark.parametrize(
    "hidden",
    [
        stats.norm(0.0, 2.0),
        Noise(np.random.default_rng(0)),
        Noise([{"deep": (random.Random(0),)}]),
        collections.deque([np.random.RandomState(0)]),
        np.array([np.random.RandomState(0), None], dtype=object),
        {"noise_seed": 3},
        collections.OrderedDict(a={"rng": 3}),
        {Holder(random_state=3)},
        Noise(Holder(random_state=3)),
        Noise(Seeded(noise_seed=3)),
    ],
    ids=lambda hidden: type(hidden).__name__,
)
def test_generators_are_found_however_deep(hidden):
    with pytest.raises(CandidateRefusedError, match="noise of Seeded must not hold .* its noise would repeat"):
        refuse_hidden_seeds(Seeded(noise=hidden))


@pytest.mark.parametrize("harmless", [Noise(3.0), Noise(Holder()), {"a": [1, 2]}, lambda: 0, Noise(threading.Lock())])
def test_other_objects_are_taken(harmless):
    refuse_hidden_seeds(Seeded(noise=harmless))


# ---- code that fixes the generators


def _states():
    return np.random.get_state()[1].tolist(), np.random.get_state()[2], random.getstate()


def test_generators_are_fixed_and_put_back():
    before = _states()
    with isolated_global_generators(5):
        inside = _states()
        with borrowed_global_generators():
            fix_global_generators(3, 4)
            assert (random.random(), np.random.rand()) == (
                random.Random(3).random(),
                np.random.RandomState(4).rand(),
            )
        assert _states() == inside
    assert _states() == before


def test_generators_are_not_fixed_while_another_thread_draws():
    turns = [threading.Event() for _ in range(2)]

    def run():
        with isolated_global_generators():
            turns[0].set()
            turns[1].wait(20)

    before, other = _states(), threading.Thread(target=run)
    with borrowed_global_generators():
        fix_global_generators(3, 4)
        other.start()
        turns[0].wait(20)
        with pytest.raises(SharedProcessError, match="engine of processes"):
            fix_global_generators(3, 4)
        with pytest.raises(SharedProcessError), borrowed_global_generators():
            pass
        theirs = _states()
    assert _states() not in (before, theirs)  # fresh: the run under way gets nothing twice
    turns[1].set()
    other.join()
    assert _states() == before


def test_who_waits_for_runs_does_not_draw():
    found = []

    def run():
        with borrowed_global_generators():
            fix_global_generators(3, 4)
            found.append(np.random.rand())

    with isolated_global_generators(waits=True):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    assert found == [np.random.RandomState(4).rand()]
