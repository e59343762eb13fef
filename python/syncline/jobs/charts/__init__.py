"""Charts of an estimate, each a module with a function ``chart``.

- :mod:`~syncline.jobs.charts.step`: where the step goes, as parts that add up;
- :mod:`~syncline.jobs.charts.communication`: communication by axis and tier, exposed and hidden;
- :mod:`~syncline.jobs.charts.pipeline`: the pipeline as a Gantt chart;
- :mod:`~syncline.jobs.charts.memory`: memory over the step, by kind and stage;
- :mod:`~syncline.jobs.charts.kernels`: kernels against their roofline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.jobs.charts import communication, kernels, memory, pipeline, step

if TYPE_CHECKING:
    from syncline.jobs.detail import Detail
    from syncline.jobs.estimation import Estimate
    from syncline.report.html.chart import Chart


def all_charts(estimate: Estimate, detail: Detail) -> list[Chart]:
    """Every chart that the job has data for."""
    charts = (module.chart(estimate, detail) for module in (step, communication, pipeline, memory, kernels))
    return [chart for chart in charts if chart is not None]
