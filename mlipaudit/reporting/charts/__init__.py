# SPDX-License-Identifier: Apache-2.0
"""Views and results to pictures: Vega-Lite specifications as plain data. Names no benchmark."""

from mlipaudit.reporting.charts.of_benchmark import charts_of
from mlipaudit.reporting.charts.of_results import heatmap, price_chart, score_chart, speed_chart
from mlipaudit.reporting.charts.of_system import curves_of

__all__ = ["charts_of", "curves_of", "heatmap", "price_chart", "score_chart", "speed_chart"]
