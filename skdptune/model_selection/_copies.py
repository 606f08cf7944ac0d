"""What of a search goes into its copies and files."""

from skdptune.ledger import for_pickling
from skdptune.model_selection._space import unfitted

__all__ = ["state_of_copy"]


def state_of_copy(state):
    """Return the state of a search as its pickles and deep copies have it.

    Copies refuse to spend: a copied budget would count into nowhere. What a template has learned, from a fit before the
    search or beside it, is not covered by the price of what is published. And the seed of what is published would undo
    its noise, tell how many tries there were, and what each of them was.

    Parameters
    ----------
    state : dict

    Returns
    -------
    dict
        Without the seed if the search is fitted; a search that is not takes it along, to workers for example.
    """
    templates = {name: unfitted(state[name]) for name in ("estimator", "param_distributions") if name in state}
    seed = {"random_state": None} if "best_score_" in state else {}
    return {**state, **templates, **seed, "ledger": for_pickling(state.get("ledger"))}
