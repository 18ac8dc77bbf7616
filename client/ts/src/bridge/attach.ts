import { infoChannel, portChannel, type ExposedPanel } from "./channels.js";
import type { AnyPort } from "./port.js";

/** What attach needs of an Electron WebContents. */
export interface PanelContents {
  readonly ipc: {
    on(channel: string, listener: (event: PanelEvent) => void): unknown;
    removeListener(channel: string, listener: (event: PanelEvent) => void): unknown;
  };
  once: (event: "destroyed", listener: () => void) => unknown;
  on: (event: "render-process-gone", listener: () => void) => unknown;
  removeListener: ((event: "destroyed", listener: () => void) => unknown) & ((event: "render-process-gone", listener: () => void) => unknown);
}

/** What attach needs of an Electron IpcMainEvent. */
export interface PanelEvent {
  readonly ports: AnyPort[];
  readonly senderFrame: { readonly url: string; readonly parent: unknown } | null;
  returnValue: unknown;
}

/** Options of attach. */
export interface AttachOptions {
  /** Which panel, where several share the context. */
  panelId?: string | undefined;
  /**
   * Says by its address whether a page may use the panel; all may unless told. A window that can be led to foreign pages
   * needs it: they would get the panel's files.
   */
  allow?: ((url: string) => boolean) | undefined;
}

/** A panel that attach serves. */
export interface AttachedPanel extends ExposedPanel {
  serve(port: AnyPort): () => void;
}

/** Answers a window's preload: with the panel, and, at each load of a page, through the port that the preload sends. */
export function attach(contents: PanelContents, panel: AttachedPanel, { allow }: AttachOptions): () => void {
  let close: (() => void) | undefined;
  const end = (): void => {
    close?.();
    close = undefined;
  };
  const may = ({ senderFrame }: PanelEvent): boolean => senderFrame?.parent === null && (allow?.(senderFrame.url) ?? true);
  const onInfo = (event: PanelEvent): void => {
    event.returnValue = may(event) ? ({ contextId: panel.contextId, partition: panel.partition } satisfies ExposedPanel) : null;
  };
  const onPort = (event: PanelEvent): void => {
    const [port] = event.ports;
    if (!port) return;
    if (!may(event)) return port.close();
    end(); // the page before a reload
    close = panel.serve(port);
  };
  const detach = (): void => {
    end();
    contents.ipc.removeListener(infoChannel, onInfo);
    contents.ipc.removeListener(portChannel, onPort);
    contents.removeListener("render-process-gone", end);
    contents.removeListener("destroyed", detach);
  };
  contents.ipc.on(infoChannel, onInfo);
  contents.ipc.on(portChannel, onPort);
  contents.on("render-process-gone", end);
  contents.once("destroyed", detach);
  return detach;
}
