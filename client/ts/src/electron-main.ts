/**
 * For Electron's main process: opens panels on one connection, and serves windows.
 *
 * MessagePortMain cannot transfer ArrayBuffers, so that between the main process and a window bytes are copied once;
 * between threads and between pages they are moved.
 */
export type { AttachOptions, PanelContents, PanelEvent } from "./bridge/attach.js";
export { Bridge, createBridge, type BridgeOptions, type BridgePanel, type BridgeServer, type OpenedPanel } from "./bridge/bridge.js";
export type { AnyPort } from "./bridge/port.js";
