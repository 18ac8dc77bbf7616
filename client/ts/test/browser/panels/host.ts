// A page that holds the connection for panels in frames and in workers.
import { createBridge, type BridgePanel } from "@ctxfs/client/bridge";

const { url, frame, worker } = settings as { url: string; frame: string; worker: string };
const bridge = createBridge({
  address: { url },
  openPanel: async (id: string) => (await (await fetch(`/panel/${id}`)).json()) as BridgePanel,
});

const ends = new Map<MessageEventSource | Worker, () => void>();

/** Waits for what a panel says. */
function said(from: MessageEventSource | Worker): Promise<Record<string, unknown>> {
  return new Promise((resolve) => {
    const heard = (event: MessageEvent<Record<string, unknown>>): void => {
      if (event.source !== from && event.currentTarget !== from) return;
      if (event.data.say !== "want") return resolve(event.data);
      const { port1, port2 } = new MessageChannel();
      ends.set(from, bridge.serve(port1, String(event.data.contextId)));
      (from as Worker).postMessage("port", { targetOrigin: "*", transfer: [port2] } as StructuredSerializeOptions);
    };
    (from instanceof Worker ? from : window).addEventListener("message", heard as EventListener);
  });
}

function inFrame(contextId: string): { element: HTMLIFrameElement; answer: () => Promise<Record<string, unknown>> } {
  const element = document.createElement("iframe");
  element.src = `/page?${new URLSearchParams({ script: frame, settings: JSON.stringify({ contextId }) }).toString()}`;
  document.body.append(element);
  return { element, answer: () => said(element.contentWindow as Window) };
}

const one = await bridge.open("frames-one");
const two = await bridge.open("frames-two");
const three = await bridge.open("frames-worker");
const first = inFrame(one.contextId);
const second = inFrame(two.contextId);
const inWorker = new Worker(worker, { type: "module", name: three.contextId });
const answers = await Promise.all([first.answer(), second.answer(), said(inWorker)]);

/** Called by the test. */
Object.assign(globalThis, {
  answers,
  reload: async () => {
    const next = first.answer();
    first.element.contentWindow?.location.reload();
    return next;
  },
  remove: () => { second.element.remove(); },
  terminate: () => {
    inWorker.terminate();
    ends.get(inWorker)?.();
  },
});
report(answers);
