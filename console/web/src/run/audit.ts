// The audit log: its newest entries, those that come, and older ones on demand.
import { stream } from "../api";
import { follow } from "../follow";
import type { AuditEntry } from "../gen/api";

/** What the server filters by; empty is no filter. */
export interface AuditFilter {
  contextId: string;
  panelId: string;
  op: string;
}

/** How many entries one page has. */
const page = 200;
/** How many entries the table has at most. The oldest ones leave it. */
const most = 5000;

/** The entries that were read. */
export interface AuditLog {
  /** Newest first. */
  entries: readonly AuditEntry[];
  /** Where older entries are; empty if there are none, undefined before the past was read. */
  before: string | undefined;
}

export const emptyLog: AuditLog = { entries: [], before: undefined };

/** Follows the log. It reads the newest page again after a lost connection. */
export async function followAudit(filter: AuditFilter, update: (change: (log: AuditLog) => AuditLog) => void, lost: () => void, signal: AbortSignal): Promise<void> {
  await follow(signal, lost, async (current, answered) => {
    let past: AuditEntry[] | undefined = [];
    for await (const { entry, ready } of stream("ConsoleService/ReadAudit", { ...filter, limit: page, follow: true }, { signal: current })) {
      answered();
      if (entry && past) past.push(entry);
      else if (entry) update((log) => ({ ...log, entries: [entry, ...log.entries].slice(0, most) }));
      if (ready) {
        const log = { entries: past ?? [], before: ready.before ?? "" };
        past = undefined;
        update(() => log);
      }
    }
  });
}

/** Reads the page of entries before a cursor. */
export async function readOlder(filter: AuditFilter, before: string, signal: AbortSignal): Promise<AuditLog> {
  const entries: AuditEntry[] = [];
  let next = "";
  for await (const { entry, ready } of stream("ConsoleService/ReadAudit", { ...filter, limit: page, before }, { signal })) {
    if (entry) entries.push(entry);
    if (ready) next = ready.before ?? "";
  }
  return { entries, before: next };
}

/** Adds a page of older entries to a log. */
export function withOlder(log: AuditLog, older: AuditLog): AuditLog {
  return { entries: [...log.entries, ...older.entries], before: older.before };
}

/** What an entry was about: its paths, handle, name or steps. */
export function subject({ path, dest, name, fd, steps }: AuditEntry): string {
  const paths = [path, dest].filter((text) => text).join(" → ");
  return [name, paths, fd ? `handle ${String(fd)}` : "", steps?.length ? `${String(steps.length)} steps` : ""].filter((text) => text).join("  ");
}
