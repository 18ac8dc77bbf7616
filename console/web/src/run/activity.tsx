// What the server does: its plots of the last hour, and its audit log.
import { useEffect, useState } from "react";
import type { MetricsSample } from "../gen/api";
import { useTheme } from "../theme";
import { ErrorNote, Spinner, useTitle } from "../ui";
import { AuditTable } from "./audittable";
import { figures, followMetrics, plots } from "./metrics";
import { Plot } from "./plot";
import "./run.css";

export default function Activity() {
  useTitle("Activity");
  return (
    <div className="page activity">
      <Metrics />
      <AuditTable />
    </div>
  );
}

function Metrics() {
  const { dark } = useTheme();
  const [samples, setSamples] = useState<readonly MetricsSample[]>();
  const [lost, setLost] = useState(false);
  const [error, setError] = useState<unknown>();
  useEffect(() => {
    const abort = new AbortController();
    const update = (all: readonly MetricsSample[]): void => {
      setLost(false);
      setSamples(all);
    };
    followMetrics(update, () => { setLost(true); }, abort.signal).catch((failed: unknown) => { if (!abort.signal.aborted) setError(failed); });
    return () => { abort.abort(); };
  }, []);
  const latest = samples?.at(-1);
  return (
    <section className="stack" aria-label="Measurements">
      <div className="bar">
        <h2 className="grow">The last hour</h2>
        {lost && <span className="dim" role="status">connection lost, trying again</span>}
      </div>
      {error !== undefined && <ErrorNote error={error} />}
      {!samples && error === undefined && <Spinner label="Reading the measurements" />}
      {latest && <dl className="figures">{figures.map(({ label, text }) => <div key={label}><dt>{label}</dt><dd>{text(latest)}</dd></div>)}</dl>}
      {samples && <div className="plots">{plots.map((plot) => <Plot key={plot.title} of={plot} samples={samples} dark={dark} />)}</div>}
    </section>
  );
}
