// The server's samples as columns, as uPlot takes them.
import { num, stream } from "../api";
import { follow } from "../follow";
import type { MetricsSample } from "../gen/api";
import { size } from "../ui";

/** An hour of samples, one every 5 seconds. */
const most = 720;

/** One line of a plot. */
export interface Series {
  label: string;
  /** A colour of the theme, such as --accent. */
  colour: string;
  /** The line's dashes, in pixels: lines differ in more than their colour. */
  dash?: number[];
  value: (sample: MetricsSample) => number | null;
}

/** A plot of one unit. */
export interface PlotOf {
  title: string;
  series: Series[];
  /** Writes a value with its unit. */
  text: (value: number) => string;
}

export const plots: readonly PlotOf[] = [
  {
    title: "Operations per second", text: rate,
    series: [{ label: "operations", colour: "--accent", value: (sample) => sample.operationsPerSecond ?? 0 }],
  },
  {
    title: "Errors per second", text: rate,
    series: [{ label: "errors", colour: "--bad", value: (sample) => sample.errorsPerSecond ?? 0 }],
  },
  {
    title: "Latency", text: seconds,
    series: [
      { label: "p50", colour: "--accent", value: (sample) => sample.latencyP50Seconds ?? null },
      { label: "p95", colour: "--warn", dash: [6, 3], value: (sample) => sample.latencyP95Seconds ?? null },
      { label: "p99", colour: "--bad", dash: [2, 3], value: (sample) => sample.latencyP99Seconds ?? null },
    ],
  },
  {
    title: "Disk of contexts", text: size,
    series: [{ label: "contexts and snapshots", colour: "--accent", value: (sample) => optional(sample.contextsBytes) }],
  },
];

/** What the server has at the moment. */
export const figures: readonly { label: string; text: (sample: MetricsSample) => string }[] = [
  { label: "Contexts", text: (sample) => count(sample.contexts) },
  { label: "Panels", text: (sample) => count(sample.panels) },
  { label: "Sessions", text: (sample) => count(sample.sessions ?? 0) },
  { label: "Processes", text: (sample) => count(sample.processes ?? 0) },
  { label: "Open handles", text: (sample) => count(sample.handles ?? 0) },
  { label: "Running calls", text: (sample) => count(sample.calls ?? 0) },
  { label: "Free disk", text: (sample) => (sample.diskFreeBytes === undefined ? "not known" : size(num(sample.diskFreeBytes))) },
];

/** Follows the samples. Each update has all samples of the last hour, oldest first. */
export async function followMetrics(update: (samples: readonly MetricsSample[]) => void, lost: () => void, signal: AbortSignal): Promise<void> {
  let samples: readonly MetricsSample[] = [];
  await follow(signal, lost, async (current, answered) => {
    for await (const { history, sample } of stream("ConsoleService/WatchMetrics", {}, { signal: current })) {
      answered();
      if (history) samples = history.samples ?? [];
      if (sample) samples = [...samples, sample].slice(-most);
      update(samples);
    }
  });
}

/** Gives the times, in seconds, and the values of each line. */
export function columns(plot: PlotOf, samples: readonly MetricsSample[]): [number[], ...(number | null)[][]] {
  return [samples.map((sample) => num(sample.timeNs) / 1e9), ...plot.series.map(({ value }) => samples.map(value))];
}

function optional(value: string | undefined): number | null {
  return value === undefined ? null : num(value);
}

function count(value: number | undefined): string {
  return value === undefined ? "not known" : value.toLocaleString("en");
}

function rate(value: number): string {
  return `${value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 1 : 0 })}/s`;
}

/** Writes a time of less than a second in ms. */
export function seconds(value: number): string {
  if (value >= 1) return `${value.toLocaleString("en", { maximumFractionDigits: 1 })} s`;
  return `${(value * 1000).toLocaleString("en", { maximumSignificantDigits: 3 })} ms`;
}
