// One plot with its table of latest values.
import { useEffect, useId, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { MetricsSample } from "../gen/api";
import { colourOf } from "./colours";
import { columns, type PlotOf } from "./metrics";

/** How high a plot is, in pixels. */
const height = 160;
/** What all plots share: the pointer's place in time. */
const cursors = uPlot.sync("activity");

/** Draws a plot. Its table has the latest and the highest values for those who do not see the lines. */
export function Plot({ of, samples, dark }: { of: PlotOf; samples: readonly MetricsSample[]; dark: boolean }) {
  const title = useId();
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(null);
  const data = useRef<uPlot.AlignedData>([[]]);
  data.current = columns(of, samples);

  useEffect(() => {
    const parent = place.current;
    if (!parent) return;
    const drawn = new uPlot(settings(of, parent.clientWidth), data.current, parent);
    plot.current = drawn;
    cursors.sub(drawn);
    const size = new ResizeObserver(() => { drawn.setSize({ width: parent.clientWidth, height }); });
    size.observe(parent);
    return () => {
      size.disconnect();
      cursors.unsub(drawn);
      drawn.destroy();
      plot.current = null;
    };
  }, [of, dark]); // a canvas does not follow the colours of the page

  useEffect(() => { plot.current?.setData(data.current); }, [samples]);

  return (
    <figure className="plot" aria-labelledby={title}>
      <figcaption id={title}>{of.title}</figcaption>
      <div ref={place} aria-hidden="true" className="plot-canvas" />
      <Values of={of} samples={samples} titled={title} />
    </figure>
  );
}

/** The latest and the highest value of each line. */
function Values({ of, samples, titled }: { of: PlotOf; samples: readonly MetricsSample[]; titled: string }) {
  return (
    <table className="plot-values" aria-labelledby={titled}>
      <thead><tr><th scope="col">Line</th><th scope="col">Now</th><th scope="col">Highest in the hour</th></tr></thead>
      <tbody>
        {of.series.map((series) => {
          const values = samples.map(series.value);
          const known = values.filter((value) => value !== null);
          return (
            <tr key={series.label}>
              <th scope="row"><Swatch colour={series.colour} dash={series.dash} />{series.label}</th>
              <td>{textOf(of, values.at(-1) ?? null)}</td>
              <td>{textOf(of, known.length > 0 ? Math.max(...known) : null)}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

function Swatch({ colour, dash }: { colour: string; dash: number[] | undefined }) {
  return (
    <svg className="plot-swatch" width="22" height="8" aria-hidden="true">
      <line x1="0" y1="4" x2="22" y2="4" strokeWidth="2" stroke={`var(${colour})`} strokeDasharray={dash?.join(" ")} />
    </svg>
  );
}

function textOf(of: PlotOf, value: number | null): string {
  return value === null ? "none" : of.text(value);
}

function settings(of: PlotOf, width: number): uPlot.Options {
  const axis: uPlot.Axis = { stroke: colourOf("--text-dim"), grid: { stroke: colourOf("--border"), width: 1 }, ticks: { show: false } };
  return {
    width, height,
    legend: { show: false },
    cursor: { sync: { key: cursors.key }, drag: { x: false, y: false } },
    scales: { x: { range: (plot) => lastMinutes(plot.data[0]) }, y: { range: (_plot, _low, high) => [0, high > 0 ? high * 1.1 : 1] } },
    axes: [{ ...axis, gap: 10, size: 56 }, { ...axis, size: 70, values: (plot, ticks) => (hasValues(plot.data) ? ticks.map(of.text) : []) }],
    series: [{}, ...of.series.map(({ label, colour: name, dash }) => ({ label, stroke: colourOf(name), width: 1.5, ...(dash ? { dash } : {}), points: { show: (plot: uPlot) => plot.data[0].length === 1 } }))],
  };
}

function hasValues([, ...lines]: uPlot.AlignedData): boolean {
  return lines.some((line) => Array.from(line).some((value) => typeof value === "number"));
}

/** Gives the time that a plot shows: two minutes at least, for a server that just began has one sample or none. */
function lastMinutes(times: ArrayLike<number>): [number, number] {
  const end = times[times.length - 1] ?? Date.now() / 1000;
  return [Math.min(times[0] ?? end, end - 120), end];
}
