"""``PrivateRandomSearchCV``: random search that pays once.

Paper and code: the search is Algorithm 1 of Papernot and Steinke (arXiv 2110.03620v2): draw K, run a
private base algorithm K times with independent coins, output the best. ``best_of`` in
:mod:`skdptune.accounting` prices it.
"""

import secrets
import warnings
from dataclasses import replace

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skdptune._exceptions import AllRunsFailedError, InvalidParameterError, PublicSeedWarning, SplitRefusedError
from skdptune._validation import check_choice, check_integer, check_real, invalid_type, invalid_value
from skdptune.accounting._relations import check_relation
from skdptune.candidates import find_adapter
from skdptune.candidates._seeding import with_settings_of
from skdptune.ledger import as_ledger
from skdptune.model_selection._assumptions import assumptions_of
from skdptune.model_selection._cells import check_run_timeout
from skdptune.model_selection._checkpoint import check_checkpoint, open_checkpoint
from skdptune.model_selection._columns import check_index
from skdptune.model_selection._copies import state_of_copy
from skdptune.model_selection._engine import Runner, check_engine
from skdptune.model_selection._late_ctrl_c import LateCtrlC, PromptCtrlC
from skdptune.model_selection._lists import numbers_where_all_are
from skdptune.model_selection._outcome import publish_outcome
from skdptune.model_selection._preflight import check_travels, preflight
from skdptune.model_selection._pricing import SearchTerms, quote
from skdptune.model_selection._publish import NotPublished, withdraw
from skdptune.model_selection._quiet import debugging
from skdptune.model_selection._read_only import refuse_uncopyable
from skdptune.model_selection._readiness import make_ready
from skdptune.model_selection._repr import PricedRepr
from skdptune.model_selection._rows import (
    check_public_rows,
    check_rows,
    check_same_columns,
    declared_classes,
    label_set,
    number_of_rows,
    refuse_fit_params,
    row_shape,
)
from skdptune.model_selection._runs import RunData, RunPlan, RunSeeds, public_coins
from skdptune.model_selection._space import ParamSpace, unfitted
from skdptune.model_selection._splits import as_split_scheme, check_scheme_relation
from skdptune.model_selection._tidy import as_declared
from skdptune.run_counts import as_run_count
from skdptune.scoring import resolve_private_scorer, resolve_public_scorer

__all__ = ["PrivateRandomSearchCV"]

_PROMPT = PromptCtrlC()
_NO_CV_RESULTS = (
    "PrivateRandomSearchCV has no cv_results_: only the winner is published, because the other tries, their "
    "number and their scores were not paid for. Use best_params_, best_score_ and privacy_spent_."
)


def _delegates(method):
    """Return a check for ``available_if``: does the model, or the template before fit, have ``method``?"""

    def check(search):
        model = vars(search).get("best_estimator_", search.estimator)
        getattr(model, method)  # raises AttributeError, which hasattr turns into False
        return True

    return check


class PrivateRandomSearchCV(PricedRepr, MetaEstimatorMixin, BaseEstimator):
    """Random search over private candidates that publishes only the best and pays about once.

    A drop-in replacement for :class:`sklearn.model_selection.RandomizedSearchCV`. The number of tries is
    drawn at random, each try trains a differentially private candidate with settings drawn
    independently and with replacement, and only the best try is published. The price of the whole
    search is stated in ``privacy_spent_`` after ``fit``, and by :meth:`privacy_cost` before any row is seen.

    Parameters
    ----------
    estimator : estimator
        A candidate whose cost is known: a diffprivlib model, an estimator with ``rdp_curve`` or
        ``privacy_curve``, or a Pipeline of such.
    param_distributions : dict or list of dict
        Parameter names to lists or distributions, as for ``RandomizedSearchCV``. Lists are drawn from with
        replacement.
    n_iter : float or RunCount, default=10
        The distribution of the number of tries. A number m means
        ``TruncatedNegativeBinomial(mean=m, eta=2)``.
    scoring : None, "accuracy" or PrivateScorer; any scikit-learn scoring with public rows
        How tries are compared. None is accuracy for classifiers; regressors need a scorer with
        public bounds.
    score_noise : "matched", float or ScoreNoise, default="matched"
        Noise on each try's score. "matched" is the least noise that adds nothing to the price; a number is a
        standard deviation in rows. Not used with public validation rows.
    epsilon, delta : float or None, default=None
        A target for the whole search (nats): candidates are calibrated to meet it. ``delta`` alone is
        the delta at which prices are shown, ``privacy_spent_.epsilon()`` is read and a ``ledger`` is charged.
    relation : {"zero-out", "replace-one", "add-remove"}, default="zero-out"
        The neighbouring relation of every cost in this search.
    cv : None, int, splitter or list of index pairs, default=None
        None holds out 20 % of the rows. Splitters that look at labels or groups are refused.
    refit : {"winner", True, False}, default="winner"
        Publish the winner's model as trained in its run, train once more on all rows (one more
        training at the dearest candidate's cost), or publish no model.
    classes : array-like of shape (n_classes,) or None, default=None
        The public label set. None takes the one declared to the model (its parameter ``classes``), and where there is
        none, the label set of y; the report says which.
    ledger : object or None, default=None
        A :class:`~skdptune.ledger.PrivacyLedger`, a diffprivlib ``BudgetAccountant``, an
        :class:`~skdptune.ledger.AccountantHandle`, or any object with ``charge(spent, delta)``. Charged once, for the
        whole search, before a row is used.
    checkpoint : str, path or None, default=None
        A folder (``~`` is the home folder), made by the search and readable by its user alone, in which a long search
        survives a kill, a crash or Ctrl-C: the same call goes on with the same tries, for the same single charge. It is
        for the curator only, and removed when the search ends. See :doc:`/long_searches`.
    run_timeout : float or None, default=None
        Seconds that one try may take; one that takes longer is stopped, ranks last and stays charged. Fixed without
        looking at the data. Tries then run in processes of their own, whatever the engine. There is no time-out for the
        whole search: its length would depend on the number of tries; cap that with
        :class:`~skdptune.run_counts.AtMost` instead.
    n_jobs, pre_dispatch, verbose
        As for :class:`joblib.Parallel`. What ``verbose`` prints shows the number of tries: it is for the curator.
    random_state : int, RandomState or None, default=None
        None derives all randomness from 256 fresh bits of the operating system. Anything else makes the fit repeatable,
        warns, and holds only while the seed stays secret.
    error_score : nan or "raise", default=nan
        nan: a try that fails ranks last and is charged. "raise": the search ends with an error that names
        the type of the first failure seen; the budget stays charged.

    Attributes
    ----------
    best_params_ : dict or None
        Settings of the winner; None if no try succeeded.
    best_score_ : float
        The winner's noisy score, as it was compared.
    best_estimator_ : estimator
        The published model; absent for ``refit=False``.
    privacy_spent_ : PrivacySpent
        The price of the whole search, with the single run beside it.
    classes_ : ndarray of shape (n_classes,)
        The label set (classifiers).
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
    scorer_ : callable
        Scores a model on public rows: ``scorer_(model, X, y)``, without noise.

    See Also
    --------
    skdptune.accounting.best_of : The price of publishing the best of K runs.

    Notes
    -----
    *Guarantee.* Under ``relation``, the published attributes are (epsilon, delta)-differentially private for
    every delta with ``epsilon = privacy_spent_.epsilon(delta)``.

    *Assumes* what ``privacy_spent_.assumptions`` lists.

    ``score`` and ``predict`` on private rows other than the training rows are not part of the price:
    what they return has no noise.

    References
    ----------
    .. [1] N. Papernot and T. Steinke, "Hyperparameter Tuning with Renyi Differential Privacy", ICLR 2022,
           arXiv 2110.03620v2.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.base import BaseEstimator, ClassifierMixin
    >>> from skdptune import PrivateRandomSearchCV
    >>> class Coin(ClassifierMixin, BaseEstimator):
    ...     "Ignores its rows; costs a Gaussian of scale s."
    ...     def __init__(self, s=1.0):
    ...         self.s = s
    ...     def rdp_curve(self, orders):
    ...         return np.asarray(orders) / (2 * self.s**2)
    ...     def fit(self, X, y):
    ...         self.classes_, self.z_ = np.unique(y), np.random.normal(scale=self.s)
    ...         return self
    ...     def predict(self, X):
    ...         return np.full(len(X), self.classes_[int(self.z_ > 0)])
    >>> search = PrivateRandomSearchCV(Coin(), {"s": [4.0, 8.0]}, n_iter=5)
    >>> before = search.privacy_cost(n_samples=100)
    >>> search = search.fit(np.zeros((100, 1)), np.arange(100) % 2)
    >>> search.privacy_spent_.epsilon(1e-5) == before.epsilon(1e-5)
    True
    >>> sorted(search.best_params_)
    ['s']
    """

    best_estimator_ = NotPublished(
        "model, hence no best_estimator_", "refit=False; set refit='winner' or refit=True and fit again"
    )
    best_index_ = NotPublished(
        "best_index_", "which of the tries won is never published, nor how many there were; see best_params_"
    )
    privacy_spent_ = NotPublished("privacy_spent_", "privacy_cost(n_samples=...) states the price before a fit")
    refit_time_ = NotPublished("refit_time_", "running times are not paid for; take them with a clock, for yourself")
    _copies_of_rows = 1  # that travel to the workers

    def __init__(
        self,
        estimator,
        param_distributions,
        *,
        n_iter=10,
        scoring=None,
        score_noise="matched",
        epsilon=None,
        delta=None,
        relation="zero-out",
        cv=None,
        refit="winner",
        classes=None,
        ledger=None,
        checkpoint=None,
        run_timeout=None,
        n_jobs=None,
        pre_dispatch="2*n_jobs",
        verbose=0,
        random_state=None,
        error_score=np.nan,
    ):
        self.estimator = estimator
        self.param_distributions = param_distributions
        self.n_iter = n_iter
        self.scoring = scoring
        self.score_noise = score_noise
        self.epsilon = epsilon
        self.delta = delta
        self.relation = relation
        self.cv = cv
        self.refit = refit
        self.classes = classes
        self.ledger = ledger
        self.checkpoint = checkpoint
        self.run_timeout = run_timeout
        self.n_jobs = n_jobs
        self.pre_dispatch = pre_dispatch
        self.verbose = verbose
        self.random_state = random_state
        self.error_score = error_score

    # ------------------------------------------------------------------ the price, before data

    def privacy_cost(self, n_samples=None, *, public_validation=False):
        """Return what a fit will cost, before any row is seen.

        Parameters
        ----------
        n_samples : int, optional
            The public number of private rows. May be left out where the price does not depend on it.
        public_validation : bool, default=False
            True to price a fit with ``X_public`` and ``y_public``.

        Returns
        -------
        PrivacySpent
            Equal to ``privacy_spent_`` after a fit on as many rows.

        Raises
        ------
        SkdptuneError
            If the search cannot be priced; the message says what to change.
        """
        if hasattr(n_samples, "__len__"):
            raise invalid_type("n_samples", "the number of rows", n_samples, "Pass len(X).")
        if n_samples is not None:
            n_samples = check_integer("n_samples", n_samples, low=1)
            return self._quote(self._resolve(n_samples, public_validation)).spent
        sizes = (50, 500, 5000, 5_000_017)
        try:
            template = unfitted(self.estimator)  # one for all, since costs that its methods state are compared
            terms = [self._resolve(n, public_validation, template) for n in sizes]
            costs = [self._quote(each, n_samples=None).spent for each in terms]
        except SplitRefusedError:
            costs = []
        if not costs or any(cost.curve != costs[0].curve for cost in costs):
            raise invalid_value("n_samples", "given, because the price depends on it", n_samples)
        return costs[0]

    def rdp_curve(self, orders):
        """Return the Renyi divergences of the whole search: a search is itself a candidate.

        Parameters
        ----------
        orders : array-like of shape (n_orders,)
            Orders above 1.

        Returns
        -------
        ndarray of shape (n_orders,)
            Nats; ``inf`` where no finite bound is known. After ``fit``, the price of that fit; before it,
            a price that must not depend on the number of rows.
        """
        spent = vars(self).get("privacy_spent_")
        if spent is None:
            spent = self.privacy_cost()
        return spent.rdp(orders)

    def _check_settings(self):
        """Check every setting that is neither space nor data; return (relation, run_count, refit)."""
        if isinstance(self.estimator, type) or not hasattr(self.estimator, "get_params"):
            raise invalid_type(
                "estimator", "a scikit-learn estimator", self.estimator, "Pass an instance: Model(...), not Model."
            )
        relation = check_relation(self.relation)
        run_count = as_run_count(self.n_iter)
        refit = check_choice("refit", self.refit, ("winner", True, False))
        if not (self.error_score == "raise" if isinstance(self.error_score, str) else _is_nan(self.error_score)):
            raise invalid_value(
                "error_score", "nan or 'raise'", self.error_score, "A failed try always ranks last."
            )
        check_engine(self)
        if self.delta is not None:
            check_real("delta", self.delta, low=0, high=1, high_open=True)
        return relation, run_count, refit

    def _scheme(self, relation, refit, public_validation):
        if hasattr(self.cv, "__next__"):
            # A generator can be read once: keep what it yields, so that a second fit works too.
            self.cv = list(self.cv)
        scheme = as_split_scheme(self.cv, public_validation=public_validation)
        check_scheme_relation(scheme, relation)
        if refit == "winner" and scheme.n_splits != 1:
            raise InvalidParameterError(
                f"refit must be True or False with {scheme.describe()}; got 'winner', but several splits leave "
                "several models of the winner and none of them is the model. refit=True trains one more on all "
                "rows and is part of the price."
            )
        return scheme

    def _resolve(self, n_samples, public_validation, template=None):
        """Check everything that needs no data, in one place, and return it as one value."""
        relation, run_count, refit = self._check_settings()
        scheme = self._scheme(relation, refit, public_validation)
        space = ParamSpace(self.param_distributions)
        space.check_names(self.estimator)
        find_adapter(self.estimator).check(relation)  # a model that cannot be priced needs no advice on its score
        # Prices, scorers and tries get a template that has learned nothing: what they keep of it is published.
        template = unfitted(self.estimator) if template is None else template
        resolver = resolve_public_scorer if public_validation else resolve_private_scorer
        return SearchTerms(
            estimator=template,
            space=space,
            run_count=run_count,
            scheme=scheme,
            relation=relation,
            n_samples=n_samples,
            refit=refit,
            scorer=resolver(self.scoring, template),
            score_noise=self.score_noise,
            public_validation=public_validation,
            seeded=self.random_state is not None,
        )

    def _quote(self, terms, **shown):
        """Price ``terms``; ``shown`` overrides what the report says of them."""
        class_source = None
        if is_classifier(self.estimator):
            class_source = "declared"
            if self.classes is None:
                class_source = "label set of y" if declared_classes(self) is None else "declared to the model"

        def describe(noise, adapters, level):
            return assumptions_of(
                replace(terms, **shown),
                noise=noise,
                class_source=class_source,
                adapters=adapters,
                seeded=self.random_state is not None,
                level=level,
                timed=self.run_timeout is not None,
                kept=self.checkpoint is not None,
            )

        priced = quote(terms, target_epsilon=self.epsilon, delta=self.delta, describe=describe)
        if shown:
            priced = replace(priced, spent=replace(priced.spent, **shown, n_scored=None))
        return priced

    # ------------------------------------------------------------------ fit

    def fit(self, X, y=None, *, X_public=None, y_public=None, **fit_params):
        """Search, and publish the best try.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Private rows. A list must hold numbers, which become floats, and missing cells.
        y : array-like of shape (n_samples,)
            Private labels or targets.
        X_public, y_public : array-like, optional
            Public validation rows: every private row is trained on and these score the tries, without noise.
            They must not come from the private rows.
        **fit_params : dict
            Refused by name: weights and groups of private rows are not priced.

        Returns
        -------
        self : PrivateRandomSearchCV

        Raises
        ------
        SkdptuneError
            Before anything is spent, for settings or data that cannot be priced or used.
        AllRunsFailedError
            If every try failed. The budget is charged and the published attributes hold the default.
        """
        refuse_fit_params(fit_params)
        check_engine(self)
        make_ready(self)
        master = self._master_seed()
        with LateCtrlC() as late:
            failed = self._fit(X, y, X_public, y_public, master=master, ledger=self.ledger, late=late)
        if failed is not None:
            del master  # this error is a result: neither the secret nor the tries hang on its traceback
            raise failed.with_traceback(None)
        return self

    def _fit(self, X, y, X_public, y_public, *, master, ledger, fewest=1, late=_PROMPT):
        """Search and publish; return the error if no try succeeded, where that is what is published."""
        withdraw(self)
        try:
            self._validate_price_run_publish(X, y, X_public, y_public, master, ledger, fewest, late)
        except AllRunsFailedError as error:
            return error  # the default has been published
        except BaseException:
            withdraw(self)  # nothing half-finished stays visible
            raise

    def _validate_price_run_publish(self, X, y, X_public, y_public, master, ledger, fewest, late):
        public_validation = X_public is not None or y_public is not None
        # Rules and price first: neither sees a row; the number of rows is public.
        terms = self._resolve(number_of_rows(X, fewest), public_validation)
        priced = self._quote(terms)
        # Schema checks, still before anything is spent.
        check_index(self, X)
        X, y = check_rows(self, X, y)
        classes = label_set(self, y)
        y = as_declared(y, classes)
        if public_validation:
            X_public, y_public = check_public_rows(self, X, y, X_public, y_public, classes)
        plan = self._plan(terms, priced, classes)
        preflight(plan, row_shape(X), self.n_jobs)
        check_travels(plan, self.n_jobs, (X, y, X_public, y_public), self._copies_of_rows)
        refuse_uncopyable(X=X, y=y, X_public=X_public, y_public=y_public)
        ledger = as_ledger(ledger)
        with open_checkpoint(check_checkpoint(self.checkpoint)) as saved:
            # What is drawn here, and all coins later on, is a function of the master secret.
            master = saved.master(master, self.random_state is not None)
            splits = terms.scheme.draw(terms.n_samples, public_coins(master, "split"))
            seeds = RunSeeds(master, self._draw_run_count(terms.run_count, master))
            saved.begin(self, (X, y), (X_public, y_public), splits, len(seeds), priced.spent)
            # The whole price is charged before the first private fit and never given back after it.
            saved.charge(ledger, priced.spent, self.delta)
            best = self._run(plan, self._data(terms, splits, X, y, X_public, y_public), seeds, saved.store)
            with saved.ending(AllRunsFailedError):
                publish_outcome(self, terms, priced.spent, best, plan, (X, y), master, late)

    def _master_seed(self):
        """Return the 256 secret bits everything is derived from, so that a run whose worker died can be replayed."""
        if self.random_state is None:
            return secrets.randbits(256)
        warnings.warn(
            "random_state was given: the search is repeatable, and its privacy guarantee holds only for those who do "
            "not know the seed. Leave random_state=None for a release.",
            PublicSeedWarning,
            stacklevel=3,
        )
        return int.from_bytes(check_random_state(self.random_state).bytes(32), "big")

    def _plan(self, terms, priced, classes):
        public = terms.public_validation
        return RunPlan(
            estimator=terms.estimator,
            space=terms.space,
            coverage=replace(priced, spent=None),  # workers check what is covered; what it costs stays here
            relation=terms.relation,
            train_sizes=terms.scheme.train_sizes(terms.n_samples),
            classes=classes,
            scorer=None if public else terms.scorer,
            n_scored=terms.scheme.n_scored(terms.n_samples),
            public_scorer=terms.scorer if public else None,
            keep_model=terms.refit == "winner",
            debug=debugging(),
            token=secrets.token_hex(16),
            run_timeout=check_run_timeout(self.run_timeout),
        )

    @staticmethod
    def _data(terms, splits, X, y, X_public, y_public):
        scorings = max(cost.scorings for cost in terms.scheme.row_costs(terms.n_samples))
        return RunData.cut(X, y, splits, max(1, scorings), X_public, y_public)

    def _draw_run_count(self, run_count, master):
        """Draw the number of tries; it is forgotten when the runs are over."""
        entropy = int.from_bytes(public_coins(master, "run count").bytes(32), "big")
        return int(run_count.sample(np.random.default_rng(entropy)))

    def _run(self, plan, data, seeds, store):
        runner = Runner(self.n_jobs, self.pre_dispatch, self.verbose)
        return runner.best(plan, data, seeds, raise_failures=self.error_score == "raise", store=store)

    # ------------------------------------------------------------------ the published model

    def _model(self, X):
        check_is_fitted(self, "best_score_")
        model = self.best_estimator_
        check_same_columns(self, X)
        return model

    def _asked(self, method, X):
        X = numbers_where_all_are(X)
        return getattr(self._model(X), method)(X)

    @available_if(_delegates("predict"))
    def predict(self, X):
        """Predict with the published model. X has shape (n_samples, n_features_in_)."""
        return self._asked("predict", X)

    @available_if(_delegates("predict_proba"))
    def predict_proba(self, X):
        """Return class probabilities of the published model, shape (n_samples, n_classes)."""
        return self._asked("predict_proba", X)

    @available_if(_delegates("predict_log_proba"))
    def predict_log_proba(self, X):
        """Return log class probabilities of the published model, shape (n_samples, n_classes)."""
        return self._asked("predict_log_proba", X)

    @available_if(_delegates("decision_function"))
    def decision_function(self, X):
        """Return the decision function of the published model."""
        return self._asked("decision_function", X)

    @available_if(_delegates("transform"))
    def transform(self, X):
        """Transform with the published model."""
        return self._asked("transform", X)

    def score(self, X, y=None):
        """Score the published model on X and y, *without noise*.

        On private rows this number is not covered by ``privacy_spent_``: keep it, or release it with noise of
        its own.
        """
        X = numbers_where_all_are(X)
        return self.scorer_(self._model(X), X, y)

    @property
    def cv_results_(self):
        """Not published; asking for it explains why."""
        raise AttributeError(_NO_CV_RESULTS)

    # ------------------------------------------------------------------ scikit-learn's manners

    def __sklearn_is_fitted__(self):
        return "best_score_" in vars(self)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags = inner.classifier_tags
        tags.regressor_tags = inner.regressor_tags
        tags.input_tags = inner.input_tags
        tags.target_tags = inner.target_tags
        tags.target_tags.required = True
        tags.non_deterministic = True
        for kind in (tags.classifier_tags, tags.regressor_tags):
            if kind is not None:
                kind.poor_score = True
        return tags

    def __sklearn_clone__(self):
        # A ledger is held by reference: a clone that charged a copy would count into nowhere.
        params = self.get_params(deep=False)
        twin = {name: clone(value, safe=False) for name, value in params.items() if name != "ledger"}
        return with_settings_of(self, type(self)(**twin, ledger=params["ledger"]))

    def __getstate__(self):
        return state_of_copy(super().__getstate__())

    def __skdptune_adapter__(self):
        from skdptune.model_selection._nested import SearchAdapter

        return SearchAdapter(self)


def _is_nan(value):
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))
