import { create } from "@bufbuild/protobuf";
import { WatchResponseSchema, type WatchResponse } from "../gen/ctxfs/v1/fs_messages_pb.js";
import { PartQueue } from "../session/parts.js";
import { shownName } from "./bytes.js";
import { Directory, type Node, type Place } from "./tree.js";

/** What a change is to fs.watch. */
export type Change = "rename" | "change";

/** How many changes wait for a reader. Beyond that it gets an overflow. */
const maxWaiting = 4096;

/** One watch. */
interface Watch { node: Node; name: string; recursive: boolean; queue: PartQueue<WatchResponse>; waiting: number; lost: boolean }

/** Reports changes to watchers. */
export class Watches {
  private readonly all = new Set<Watch>();

  /** Reports changes of a node, which was found by name, until the signal fires. The first message is ready. */
  async *watch(node: Node, name: string, recursive: boolean, signal: AbortSignal | undefined): AsyncGenerator<WatchResponse, void, void> {
    const watch: Watch = { node, name, recursive, queue: new PartQueue(), waiting: 0, lost: false };
    const stop = (): void => { watch.queue.end(); };
    signal?.addEventListener("abort", stop, { once: true });
    this.all.add(watch);
    try {
      yield notice({ case: "ready", value: {} });
      for await (const part of watch.queue) {
        if (signal?.aborted) return;
        watch.waiting--;
        yield part;
        if (watch.lost && watch.waiting === 0) {
          watch.lost = false;
          yield notice({ case: "overflow", value: {} });
        }
      }
    } finally {
      this.all.delete(watch);
      signal?.removeEventListener("abort", stop);
    }
  }

  /** Reports a change of the node that stands, or stood, at a place. */
  changed(node: Node, change: Change, { dir, name }: Place): void {
    for (const watch of this.all) {
      if (watch.node === node) tell(watch, change, watch.name);
      const below = belowOf(watch, dir);
      if (below !== undefined) tell(watch, change, below === "" ? name : `${below}/${name}`);
    }
  }

  /** Reports a change of content or attributes to the watchers of the node, under any of its names. */
  changedNode(node: Node): void {
    if (this.all.size === 0) return;
    if (!(node instanceof Directory)) for (const place of node.places) this.changed(node, "change", place);
    else if (node.place) this.changed(node, "change", node.place);
  }
}

/** Returns the path of a directory from what is watched; "" for that itself, undefined for one that is not watched. */
function belowOf(watch: Watch, dir: Directory): string | undefined {
  if (watch.node === dir) return "";
  if (!watch.recursive || !(watch.node instanceof Directory)) return undefined;
  const names: string[] = [];
  for (let at = dir.place; at; at = at.dir.place) {
    names.unshift(at.name);
    if (at.dir === watch.node) return names.join("/");
  }
  return undefined;
}

function tell(watch: Watch, eventType: Change, name: string): void {
  if (watch.waiting >= maxWaiting) {
    watch.lost = true;
    return;
  }
  watch.waiting++;
  const { text, raw } = shownName(name);
  watch.queue.push(notice({ case: "event", value: { eventType, filename: text, rawFilename: raw } }));
}

function notice(value: unknown): WatchResponse {
  return create(WatchResponseSchema, { notice: value } as never);
}
