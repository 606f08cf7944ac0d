"""Reports of privacy prices: for a terminal, a notebook, a privacy officer, a machine and MLflow.

:func:`round_up` and :func:`round_down` write single numbers as the reports do: never better than they are.
"""

from skdptune.report._html import card
from skdptune.report._mlflow import log_to_mlflow, mlflow_payload
from skdptune.report._numbers import round_down, round_up
from skdptune.report._report import PrivacyReport, json_schema

__all__ = ["PrivacyReport", "card", "json_schema", "log_to_mlflow", "mlflow_payload", "round_down", "round_up"]
