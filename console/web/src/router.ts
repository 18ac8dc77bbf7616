// Routes are in the address's fragment, which the server never sees: #/contexts/ID/VIEW/REST.
import { useSyncExternalStore } from "react";

/** Gives the parts of the route, decoded: ["contexts", "ctx_1", "files", "src/a.go"]. */
export function useRoute(): string[] {
  const hash = useSyncExternalStore(subscribe, () => location.hash);
  return parse(hash);
}

/** Splits a fragment into the parts of a route. */
export function parse(hash: string): string[] {
  if (!hash.startsWith("#/")) return [];
  return hash.slice(2).split("/").filter((part) => part !== "").map(decode);
}

/** Gives the link of a route. Each part is encoded whole. */
export function href(...parts: string[]): string {
  return `#/${parts.map(encodeURIComponent).join("/")}`;
}

/** Goes to a route; `replace` leaves no entry in the history. */
export function go(parts: string[], { replace = false } = {}): void {
  if (replace) location.replace(href(...parts));
  else location.hash = href(...parts);
}

function subscribe(listener: () => void): () => void {
  addEventListener("hashchange", listener);
  return () => removeEventListener("hashchange", listener);
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
