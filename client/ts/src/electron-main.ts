/**
 * For Electron's main process: opens panels on one connection, serves windows, and shows sites.
 *
 * MessagePortMain cannot transfer ArrayBuffers, so that between the main process and a window bytes are copied once;
 * between threads and between pages they are moved.
 */
export type { AttachOptions, PanelContents, PanelEvent } from "./bridge/attach.js";
export { Bridge, createBridge, type BridgeOptions, type BridgePanel, type BridgeServer, type OpenedPanel } from "./bridge/bridge.js";
export type { AnyPort } from "./bridge/port.js";
export { handleSites, type SiteProtocol, type SitesOptions } from "./bridge/sites.js";
export { appSite, siteScheme } from "./pages/app.js";
