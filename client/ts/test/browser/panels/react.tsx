// A page of React components.
import { createFs, type CtxFs } from "@ctxfs/client";
import { CtxfsProvider, useCtxfs, usePanelPartition } from "@ctxfs/client/react";
import { Component, StrictMode, useEffect, useState, type ReactNode } from "react";
import { createRoot } from "react-dom/client";

const { url, one, two } = settings as { url: string; one: string; two: string };
const shown: string[] = [];

function Partition(): ReactNode {
  const partition = usePanelPartition();
  const text = partition ?? "loading";
  if (shown.at(-1) !== text) shown.push(text);
  return <p id="partition">{text}</p>;
}

function Hello(): ReactNode {
  const fs = useCtxfs();
  const [text, setText] = useState("");
  useEffect(() => { void fs.readFile("/repo/hello.txt", "utf8").then(setText); }, [fs]);
  return <p id="hello">{text}</p>;
}

class Boundary extends Component<{ children: ReactNode }, { message?: string }> {
  override state: { message?: string } = {};
  static getDerivedStateFromError(error: Error): { message: string } {
    return { message: error.message };
  }

  override render(): ReactNode {
    return this.state.message === undefined ? this.props.children : <p id="failed">{this.state.message}</p>;
  }
}

const root = createRoot(document.getElementById("root") as HTMLElement);
const render = (fs?: CtxFs): void => {
  root.render(<StrictMode><Boundary key={fs ? "given" : "own"}><CtxfsProvider fs={fs}><Partition /><Hello /></CtxfsProvider></Boundary></StrictMode>);
};
Object.assign(globalThis, {
  shown,
  show: { one: () => { render(createFs({ url, token: one })); }, two: () => { render(createFs({ url, token: two })); }, own: () => { render(); } },
  bad: () => { root.render(<Boundary key="bad"><CtxfsProvider fs={createFs({ url, token: "refused" })}><Partition /></CtxfsProvider></Boundary>); },
  outside: () => { root.render(<Boundary key="outside"><Partition /></Boundary>); },
});
report("ready");
