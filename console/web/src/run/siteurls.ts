// The URLs of sites that this page opened. The server shows a URL once, and a URL is a key to the files: it stays in memory.
import { useSyncExternalStore } from "react";

let urls: ReadonlyMap<string, string> = new Map();
const listeners = new Set<() => void>();

/** Keeps the URL of a site. */
export function rememberUrl(siteId: string, url: string): void {
  urls = new Map(urls).set(siteId, url);
  for (const listener of listeners) listener();
}

/** The known URLs, by the sites' IDs. */
export function useSiteUrls(): ReadonlyMap<string, string> {
  return useSyncExternalStore(subscribe, () => urls);
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
