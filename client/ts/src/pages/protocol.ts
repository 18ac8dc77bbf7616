/** What a parent puts into a site: texts are UTF-8. */
export type Content = string | ArrayBuffer | Blob;

/** Where the hub keeps files: "memory" forgets them with the hub's frame. */
export type HubStorage = "memory" | "indexeddb";

/** What a parent asks the hub for. id is repeated in the reply; without one there is no reply. */
export type HubRequest =
  | { type: "PUT_FILES"; id?: number; sessionId: string; files: Readonly<Record<string, Content>> }
  | { type: "DELETE_FILES"; id?: number; sessionId: string; paths: readonly string[] }
  | { type: "CLEAR"; id?: number; sessionId: string }
  | { type: "SYNC"; id?: number; sessionId: string; paths: readonly string[] }
  | { type: "STATUS"; id?: number; sessionId: string }
  /** Does nothing. The reply comes at once, whatever the hub is doing. */
  | { type: "PING"; id?: number; sessionId: string };

/** What the hub has. */
export interface HubStatus {
  /** A service worker serves the pages of the site, so that they are shown without the server. */
  offline: boolean;
  /** Why there is none. */
  reason?: string;
  storage: HubStorage;
  /** Files that the parent put, and files of the server that are stored. */
  pushed: number;
  stored: number;
  /** Their size. */
  bytes: number;
}

/** What SYNC did with each path that was not stored, and how many were. */
export interface SyncResult { stored: number; failed: Record<string, string> }

/** The hub's reply. */
export type HubReply =
  | { type: "OK"; id: number; value?: HubStatus | SyncResult }
  | { type: "ERROR"; id: number; code: string; message: string };

/** What the hub sends to its parent once, when it takes requests. code is "EBUSY" if another hub of the site is open with the other storage. */
export interface HubReady { type: "READY"; sessionId: string; offline: boolean; reason?: string; code?: string }
