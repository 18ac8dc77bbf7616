// The files of a context: a tree, and a viewer of what it names.
import { lazy, Suspense, useEffect, useState } from "react";
import { num } from "../api";
import type { Stat } from "../gen/api";
import { go, href } from "../router";
import { ago, Button, Empty, ErrorNote, size, Spinner, Split, time, useAsync, useHotkeys, useNarrow } from "../ui";
import type { ContextViewProps } from "../views";
import { shownName, shownPath } from "./names";
import { hexDump, modeText, readContent, type Content } from "./read";
import { TreeView } from "./treeview";
import { useTree } from "./usetree";
import "./files.css";

const Viewer = lazy(() => import("../editor/viewer"));

export default function Files({ contextId, rest }: ContextViewProps) {
  const tree = useTree(contextId, rest);
  const [round, setRound] = useState(0);
  const narrow = useNarrow();
  const reload = () => {
    tree.reload();
    setRound(round + 1);
  };
  useHotkeys("Files", [
    { key: "r", label: "Read the files again", run: reload },
    { key: "t", label: "Go to the tree", run: () => document.querySelector<HTMLElement>(".tree")?.focus() },
  ]);
  const side = (
    <>
      <div className="pane-head"><h2 className="grow">Files</h2><Button kind="quiet" small onClick={reload}>Reload</Button></div>
      <TreeView tree={tree} shown={rest} onOpen={(names) => go(["contexts", contextId, "files", ...names])} />
    </>
  );
  const main = rest.length > 0 ? <FilePane key={rest.join("/")} contextId={contextId} names={rest} round={round} narrow={narrow} /> : <Empty title="No file is open"><p>Choose one in the tree. Enter opens it.</p></Empty>;
  // A phone has room for one of the two.
  if (narrow) return <div className="files narrow">{rest.length > 0 ? main : side}</div>;
  return <div className="files"><Split label="Width of the tree" name="files" side={side}>{main}</Split></div>;
}

function FilePane({ contextId, names, round, narrow }: { contextId: string; names: string[]; round: number; narrow: boolean }) {
  const { data, error, reload } = useAsync((signal) => readContent(contextId, names, signal), [contextId, names.join("/"), round]);
  return (
    <section className="file" aria-label={shownPath(names)}>
      <div className="pane-head wrap">
        {narrow && <a className="button small" href={href("contexts", contextId, "files")}>‹ Files</a>}
        <h2 className="mono grow file-path">{names.map((name, i) => <span key={i}><span className="dim">/</span>{shownName(name)}</span>)}</h2>
        {data && <Facts stat={data.stat} />}
      </div>
      {error !== undefined && <div className="page"><ErrorNote error={error} retry={reload} /></div>}
      {!data && error === undefined && <div className="page"><Spinner /></div>}
      {data && <Shown content={data} names={names} />}
    </section>
  );
}

function Facts({ stat }: { stat: Stat }) {
  return (
    <span className="row dim facts">
      <span>{size(stat.size)}</span>
      <span className="mono only-wide">{modeText(stat.mode)}</span>
      <span title={time(stat.mtimeNs)}>changed {ago(stat.mtimeNs)}</span>
    </span>
  );
}

function Shown({ content, names }: { content: Content; names: string[] }) {
  const path = shownPath(names);
  switch (content.kind) {
    case "text":
      return (
        <>
          {content.cut && <div className="file-note">The first 1 MiB of {size(content.stat.size)} is shown.</div>}
          {content.text === "" ? <Empty title="The file is empty" /> : <Suspense fallback={<div className="page"><Spinner /></div>}><Viewer text={content.text} path={path} label={`Content of ${path}`} /></Suspense>}
        </>
      );
    case "image":
      return <Image blob={content.blob} name={path} />;
    case "binary":
      return (
        <>
          <div className="file-note">The file is not text. {num(content.stat.size) > content.head.length ? `Its first ${size(content.head.length)} are shown.` : "Its bytes are shown."}</div>
          <pre className="hex" tabIndex={0} role="region" aria-label={`Bytes of ${path}`}>{hexDump(content.head)}</pre>
        </>
      );
    case "link":
      return <Empty title="A symbolic link"><p>It leads to <code>{content.target}</code></p></Empty>;
    case "other":
      return <Empty title={content.stat.type === "FILE_TYPE_DIRECTORY" ? "A directory" : "No regular file"}><p>It has no content to show.</p></Empty>;
  }
}

function Image({ blob, name }: { blob: Blob; name: string }) {
  const [url, setUrl] = useState("");
  const [broken, setBroken] = useState(false);
  useEffect(() => {
    const made = URL.createObjectURL(blob);
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [blob]);
  if (broken) return <Empty title="The image cannot be shown"><p>Its content is not what its name says.</p></Empty>;
  return <div className="image">{url !== "" && <img src={url} alt={`The image ${name}`} onError={() => setBroken(true)} />}</div>;
}
