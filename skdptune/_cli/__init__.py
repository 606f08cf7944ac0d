"""The command line: prices, plans, calibration, ledgers and a demonstration.

Reading order: ``_main`` (streams, errors, exit codes), ``_parser`` (what may be asked), ``_mechanisms`` and
``_run_counts`` (arguments to values), one file per command, ``_tables`` (numbers to text).

``--help`` loads neither NumPy nor scikit-learn: commands import what they need when they run.
"""
