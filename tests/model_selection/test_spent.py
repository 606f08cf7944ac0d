"""How a price prints and shows itself, and how a search shows it."""

import pickle
import re
from dataclasses import replace

import numpy as np
import pytest
import sklearn
from scipy import stats
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_html_repr

from skdptune._exceptions import InvalidParameterError, InvalidTypeError
from skdptune._rounding import nats_up
from skdptune.accounting import PrivacyCurve, best_of
from skdptune.run_counts import Finite, Fixed, FromScipy, Geometric, Logarithmic
from tests.report.cases import ROWS, handmade, rows, search


@pytest.fixture(scope="module")
def fitted():
    return search().fit(*rows())


def test_the_short_table_has_everything(fitted):
    text = str(fitted.privacy_spent_)
    for part in ("single run", "whole search", "(closed form)", "method", "relation", "zero-out, 60 rows", "tries",
                 "logarithmic, mean 5", "score noise", "split", "Assumes:", "  1. ", "Scope: ", "Versions: python"):
        assert part in text
    assert max(len(line) for line in text.splitlines()) <= 79
    assert re.search(r"skdptune \d", text)
    assert "refit" not in text.split("Assumes:")[0]


def test_a_refit_has_its_own_lines():
    text = str(search(cv=3, refit=True).privacy_cost(ROWS))
    assert "best of the runs" in text and "  refit  " in text


def test_prices_are_printed_rounded_up():
    spent = handmade(PrivacyCurve.pure(0.123456789), Fixed(1))
    assert "single run        epsilon = 0.1235" in spent.summary(delta=0.0)
    infinite = handmade(PrivacyCurve.gaussian(1.0), Fixed(1)).summary(delta=0.0)
    assert "whole search      epsilon = infinite" in infinite


def test_the_delta_reported_at():
    assert handmade(PrivacyCurve.pure(1.0), n_samples=100).default_delta == 1e-3
    assert handmade(PrivacyCurve.pure(1.0), n_samples=10**6).default_delta == pytest.approx(1e-7)
    assert handmade(PrivacyCurve.pure(1.0), n_samples=None).default_delta == 1e-6
    assert search(delta=1e-9).privacy_cost(ROWS).default_delta == 1e-9
    for wrong in (1.0, -1e-9, float("nan")):
        with pytest.raises(ValueError, match="delta must be a real number"):
            handmade(PrivacyCurve.pure(1.0)).summary(delta=wrong)


def test_the_method_named_is_that_of_the_dearest_row():
    spent = search().privacy_cost(ROWS)  # its score and its training are different curves
    assert len(spent.row_curves) == 2
    parts = [best_of(curve, spent.run_count) for curve in spent.row_curves]
    dearest = max(parts, key=lambda part: part.epsilon(spent.default_delta))
    dearest.epsilon(spent.default_delta)
    assert spent.method == dearest.method
    assert handmade(PrivacyCurve.pure(1.0), Geometric(3)).method in ("exact", "closed_form")
    assert handmade(PrivacyCurve.pure(1.0), Fixed(1)).method == "pair"


def test_no_closed_form_is_not_a_price():
    spent = handmade(PrivacyCurve.pure(1.0), Finite([0.0, 0.2, 0.8]))
    assert spent.closed_form_epsilon(1e-6) is None and "closed form" not in str(spent)
    assert replace(spent, row_curves=()).closed_form_epsilon(1e-6) is None


def test_long_run_counts_are_cut_in_the_short_table():
    count = FromScipy(stats.rv_discrete(values=(range(1, 41), [1 / 40] * 40)))
    text = str(handmade(PrivacyCurve.pure(1.0), count))
    assert "..." in text and max(len(line) for line in text.splitlines()) <= 130
    spent = handmade(PrivacyCurve.pure(1.0), Finite([1 / 40] * 40))
    text = str(spent)
    assert "finite, pmf a table of 40 probabilities" in text and max(len(line) for line in text.splitlines()) <= 130
    assert spent.report().to_dict()["tries"]["distribution"] == repr(spent.run_count)


def test_prices_are_values(fitted):
    spent = fitted.privacy_spent_
    assert spent == search().privacy_cost(ROWS) == replace(spent, versions=(), settings=None, stage="quote")
    copy = pickle.loads(pickle.dumps(spent))
    assert copy == spent and str(copy) == str(spent) and copy.stage == "spent"
    assert spent != search(n_iter=Logarithmic(6)).privacy_cost(ROWS)


def test_settings_hold_no_addresses_and_no_arrays():
    from scipy import stats

    from skdptune.model_selection._settings import _source_text
    from skdptune.model_selection._space import ParamSpace

    class Odd:
        def rvs(self, random_state=None):
            return 1.0

    space = {
        "a": stats.loguniform(0.01, 1.0),
        "b": stats.randint(low=1, high=5),
        "c": [np.arange(9), np.float64(0.5), Odd()],
        "d": Odd(),
        "e": [search(), len, "text", None],
        "f": ["x" * 5000],
    }
    texts = {name: _source_text(source) for name, source in ParamSpace(space).sources()[0].items()}
    assert texts["a"] == "loguniform(0.01, 1.0)" and texts["b"] == "randint(low=1, high=5)"
    assert texts["c"] == "[an ndarray of shape (9,), 0.5, Odd]" and texts["d"] == "Odd"
    assert texts["e"] == "[PrivateRandomSearchCV of PrivateMajority, len, 'text', None]"
    assert len(texts["f"]) < 500


# The search in a notebook -----------------------------------------------------------------


def test_the_diagram_works_before_and_after_a_fit(fitted):
    for model in (search(), fitted, make_pipeline(search())):
        assert "PrivateMajority" in estimator_html_repr(model)


def test_a_fitted_search_shows_its_price_below_the_diagram(fitted):
    for html in (fitted._repr_html_(), fitted._repr_mimebundle_()["text/html"]):
        assert html.index("PrivateRandomSearchCV") < html.index('<div class="skdptune-report">')
        assert "whole search" in html
    assert "skdptune-report" not in search()._repr_html_()
    assert fitted._repr_mimebundle_()["text/plain"] == repr(fitted)
    with sklearn.config_context(display="text"):
        assert not hasattr(fitted, "_repr_html_") and "text/html" not in fitted._repr_mimebundle_()


@pytest.mark.parametrize("seed", [987654321, np.random.RandomState(0)])
def test_a_seed_that_was_given_is_not_shown(seed):
    model = search(random_state=seed)
    twice = search(estimator=model)
    shown = [repr(model), str(model), repr([model]), model.__repr__(40), estimator_html_repr(model)]
    shown += [model._repr_html_(), *model._repr_mimebundle_().values()]
    assert not any("987654321" in text or "RandomState" in text for text in shown)
    assert repr(model).count("random_state=<given, not shown>") == 1 and "given, not shown" in model._repr_html_()
    assert model.get_params()["random_state"] is seed and clone(model).random_state is not None
    assert "given, not shown" not in repr(search()) + search()._repr_html_()
    assert repr(twice).startswith("PrivateRandomSearchCV(") and len(repr(model)) > len(model.__repr__(40))
    with sklearn.config_context(print_changed_only=False):
        assert "random_state=None" in repr(search()) and "987654321" not in repr(model)


def test_the_card_needs_no_colour_and_nothing_from_outside(fitted):
    html = fitted.privacy_spent_._repr_html_()
    assert "<strong" in html or 'class="strong"' in html
    assert "http" not in html and "<script" not in html and "url(" not in html
    style = html.split("<style>")[1].split("</style>")[0]
    selectors = re.findall(r"([^{}]+)\{", style)
    assert len(selectors) > 30  # nothing outside the class is styled
    assert all(".skdptune-report" in selector or "@media" in selector for selector in selectors)


def test_an_empty_table_is_named_and_not_a_split():
    for X in (np.zeros((0, 2)), []):
        with pytest.raises(ValueError, match="X must be an array-like with at least one row"):
            search().fit(X, [])


def test_the_epsilon_at_the_searchs_own_delta():
    model = search(delta=1e-5)
    spent = model.privacy_cost(ROWS)
    assert spent.epsilon() == spent.epsilon(1e-5)
    assert f"PrivacySpent(epsilon={nats_up(spent.epsilon(1e-5))} at delta=1e-05, relation='zero-out'" in repr(spent)
    without = search().privacy_cost(ROWS)
    with pytest.raises(InvalidParameterError, match="delta must be given, since the search has none of its own"):
        without.epsilon()
    assert f"epsilon={nats_up(without.epsilon(without.default_delta))} at delta=" in repr(without)


@pytest.mark.parametrize(("classes", "words"), [([0, 1], ": 2, declared"), (None, ": 2, found in y, taken")])
def test_how_many_labels_were_published(classes, words):
    model = search(classes=classes)
    assert "labels " not in str(model.privacy_cost(ROWS))
    spent = model.fit(*rows()).privacy_spent_
    assert words in re.sub(r"labels +", ": ", str(spent)) and spent == model.privacy_cost(ROWS)
    source = "2, declared" if classes else "2, found in y, and taken to be public"
    assert f"| Labels | {source} |" in spent.report().to_markdown()


def test_rows_in_place_of_their_number_are_told_from_it():
    with pytest.raises(InvalidTypeError, match=r"n_samples must be the number of rows.*Pass len\(X\)"):
        search().privacy_cost(np.zeros((5, 2)))
