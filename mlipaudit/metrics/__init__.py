# SPDX-License-Identifier: Apache-2.0
"""Metrics of predictions against labels. Each is a plug-in: an entry point of the group `mlipaudit.metrics`.

The simplest is a function of two arrays, predicted and labelled values of one quantity. One that needs more subclasses
`DatasetMetric`, and sees one system after the other; one that pools errors subclasses `ErrorMetric` or `MeanMetric`.
"""

from mlipaudit.metrics.contract import DatasetMetric, Sample
from mlipaudit.metrics.errors import ErrorMetric, MeanMetric
from mlipaudit.metrics.values import ENERGY, FORCES, QUANTITIES, STRESS, Quantity, Values

__all__ = [
    "ENERGY",
    "FORCES",
    "QUANTITIES",
    "STRESS",
    "DatasetMetric",
    "ErrorMetric",
    "MeanMetric",
    "Quantity",
    "Sample",
    "Values",
]
