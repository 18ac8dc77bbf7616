// Who is signed in: a token that lives in this tab alone. sessionStorage keeps it over a reload; no other tab sees it.
import { useSyncExternalStore } from "react";
import { ApiError, failure, post } from "./api";

export interface Session {
  token: string;
  /** The server's version. */
  version: string;
  rights: string[];
  /** Where sites are shown, with * for the name of each; empty if the server shows none. */
  gateway: string;
}

/** Why the page has no session: "none" as yet, "ended" by the server, "left" by the person, or a link that failed. */
export type SignedOut = "none" | "ended" | "left" | ApiError;

interface State {
  session: Session | null;
  reason: SignedOut;
}

const key = "ctxfs-console-session";
const listeners = new Set<() => void>();
let state: State = { session: stored(), reason: "none" };

/** Gives the tab's session, or null. */
export function session(): Session | null {
  return state.session;
}

/** Gives the session's state to a component, which renders again when it changes. */
export function useSession(): State {
  return useSyncExternalStore(subscribe, () => state);
}

/** Forgets the token, and says why. */
export function signedOut(reason: SignedOut): void {
  sessionStorage.removeItem(key);
  set({ session: null, reason });
}

/** Trades the one-time code of the address for a token, and takes the code out of the address and the history. */
export async function signInByAddress(): Promise<void> {
  const code = /^#code=(.+)$/.exec(location.hash)?.[1];
  if (code === undefined) return;
  history.replaceState(null, "", location.pathname);
  try {
    const response = await post("/v1/console/exchange", { "Content-Type": "application/json" }, { code: decodeURIComponent(code) });
    if (!response.ok) throw await failure(response);
    const { token, version = "", rights = [], gateway = "" } = (await response.json()) as Partial<Session>;
    if (!token) throw new ApiError("The server sent no token", response.status, "", "run ctxfs console again");
    const fresh = { token, version, rights, gateway };
    sessionStorage.setItem(key, JSON.stringify(fresh));
    set({ session: fresh, reason: "none" });
  } catch (error) {
    signedOut(error instanceof ApiError ? error : new ApiError(String(error), 0, "", ""));
  }
}

/** Ends the token on the server, and forgets it. */
export async function signOut(): Promise<void> {
  const current = state.session;
  signedOut("left");
  if (!current) return;
  await post("/v1/ConsoleService/EndConsole", { "Content-Type": "application/json", Authorization: `Bearer ${current.token}` }, {});
}

function set(next: State): void {
  state = next;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function stored(): Session | null {
  const text = sessionStorage.getItem(key);
  if (text === null) return null;
  try {
    return JSON.parse(text) as Session;
  } catch {
    return null;
  }
}
