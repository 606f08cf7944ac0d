"""Reports of privacy prices: for a terminal, a notebook, a privacy officer, a machine and MLflow."""

from skdptune.report._html import card
from skdptune.report._mlflow import log_to_mlflow, mlflow_payload
from skdptune.report._report import PrivacyReport, json_schema

__all__ = ["PrivacyReport", "card", "json_schema", "log_to_mlflow", "mlflow_payload"]
