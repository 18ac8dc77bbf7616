/**
 * The bridge: many panels over one connection of their host, through MessagePorts. This entry is for hosts that are not
 * Electron's main process (a page with panels in frames or workers, a program with worker_threads), and for their panels.
 */
export type { AttachOptions, PanelContents, PanelEvent } from "./attach.js";
export { Bridge, createBridge, type BridgeOptions, type BridgePanel, type BridgeServer, type OpenedPanel } from "./bridge.js";
export { createPortFs } from "./portfs.js";
export type { PortSource } from "./panelport.js";
export type { AnyPort } from "./port.js";
