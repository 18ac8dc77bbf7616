// Runs in the page.
import { createFs } from "@ctxfs/client";
import { CtxfsProvider, useCtxfs, usePanelPartition } from "@ctxfs/client/react";
import { StrictMode, useEffect, useState, type ReactNode } from "react";
import { createRoot } from "react-dom/client";

interface Settings { url: string; token: string }

const settings = async (): Promise<Settings> => (await (await fetch("/ctxfs")).json()) as Settings;

function Files(): ReactNode {
  const fs = useCtxfs();
  const partition = usePanelPartition();
  const [names, setNames] = useState<readonly string[]>([]);
  useEffect(() => {
    const stop = new AbortController();
    const follow = async (): Promise<void> => {
      const changes = fs.watch("/", { signal: stop.signal });
      setNames(await fs.readdir("/"));
      for await (const change of changes) if (change.filename !== null) setNames(await fs.readdir("/"));
    };
    follow().catch((error: unknown) => { if (!stop.signal.aborted) console.error(error); });
    return () => { stop.abort(); };
  }, [fs]);
  const touch = (): void => { void fs.appendFile("/clicks.txt", "click\n"); };
  return (
    <>
      <h1>{partition ?? "connecting…"}</h1>
      <ul>{names.map((name) => <li key={name}>{name}</li>)}</ul>
      <button onClick={touch}>Write a line to clicks.txt</button>
    </>
  );
}

const { url } = await settings();
const fs = createFs({ url, token: async () => (await settings()).token });
const root = document.getElementById("root");
if (!root) throw new Error("index.html has no element with the id root");
createRoot(root).render(<StrictMode><CtxfsProvider fs={fs}><Files /></CtxfsProvider></StrictMode>);
