// The parts of ECharts that the report uses; nothing else is bundled.

import { BarChart, CustomChart, HeatmapChart, LineChart, ScatterChart } from "echarts/charts";
import {
  AriaComponent,
  AxisPointerComponent,
  DataZoomInsideComponent,
  DataZoomSliderComponent,
  GridComponent,
  LegendScrollComponent,
  MarkLineComponent,
  TitleComponent,
  TooltipComponent,
  VisualMapContinuousComponent,
} from "echarts/components";
import { init, use } from "echarts/core";
import { CanvasRenderer } from "echarts/renderers";

use([
  BarChart, CustomChart, HeatmapChart, LineChart, ScatterChart,
  AriaComponent, AxisPointerComponent, DataZoomInsideComponent, DataZoomSliderComponent, GridComponent,
  LegendScrollComponent, MarkLineComponent, TitleComponent, TooltipComponent, VisualMapContinuousComponent,
  CanvasRenderer,
]);

export { init };
export type { EChartsType } from "echarts/core";
