/*
 * The table's words. A row is one call, which is made on Node's own fs/promises and on ctxfs; what comes of it is
 * compared. Rows stand in tables/, one file for each part of fs/promises.
 */

/** An fs/promises. It has no type on purpose: most rows give it what its types forbid. */
export type Fs = any; // eslint-disable-line @typescript-eslint/no-explicit-any -- see above

/**
 * Makes the call. dir is the row's own directory, as fs names it, with the files of fixture.ts; disk is the same one
 * for Node's fs, for what has to be prepared behind fs's back.
 */
export type Run = (fs: Fs, dir: string, disk: string) => unknown;

/** Major versions of Node. Without bounds all are meant. */
export interface Nodes {
  readonly from?: number;
  readonly below?: number;
}

/** The major version of the Node that runs. */
export const running = parseInt(process.versions.node);

/** Says that ctxfs does something else than Node, and why. */
export interface Difference {
  readonly why: string;
  /** What ctxfs's outcome holds: a subset of it. */
  readonly outcome: unknown;
  /** Node is not asked: the call ends its process. */
  readonly fatal?: boolean;
  /** The versions of Node that the row differs from. */
  readonly nodes?: Nodes | undefined;
}

/** The difference of a row from the Node that runs. */
export function differenceOf({ difference }: Row): Difference | undefined {
  const { from = 0, below = Infinity } = difference?.nodes ?? {};
  return running >= from && running < below ? difference : undefined;
}

/** One row. */
export interface Row {
  readonly name: string;
  readonly run: Run;
  readonly difference?: Difference | undefined;
}

/** Rows by name: a function alone, or one of differs(). */
export type Table = Record<string, Run | Omit<Row, "name">>;

/** A row in which ctxfs does something else than Node: why is the reason, outcome what ctxfs does. */
export function differs(why: string, outcome: unknown, run: Run, nodes?: Nodes): Omit<Row, "name"> {
  return { run, difference: { why, outcome, nodes } };
}

/** The rows of a table. */
export function rowsOf(area: string, table: Table): Row[] {
  return Object.entries(table).map(([name, row]) => {
    const parts = typeof row === "function" ? { run: row } : row;
    return { ...parts, name: `${area}: ${name}` };
  });
}

/** Rows for each pair of a call and a value, named by both. */
export function crossed<T>(calls: Record<string, (fs: Fs, dir: string, value: T) => unknown>, values: Record<string, (dir: string) => T>): Table {
  const table: Table = {};
  for (const [call, run] of Object.entries(calls)) {
    for (const [value, make] of Object.entries(values)) table[`${call} with ${value}`] = (fs, dir) => run(fs, dir, make(dir));
  }
  return table;
}

/** Says of rows of a table, found by their names, that ctxfs does something else. A pattern that finds none is an error. */
export function marked(table: Table, ...differences: readonly [names: RegExp, why: string, outcome: unknown, only?: "fatal" | (Nodes & { fatal?: boolean })][]): Table {
  const out = { ...table };
  for (const [names, why, outcome, only] of differences) {
    const found = Object.entries(table).filter(([name]) => names.test(name));
    if (found.length === 0) throw new Error(`no row is called ${names.source}`);
    for (const [name, row] of found) {
      out[name] = { run: typeof row === "function" ? row : row.run, difference: { why, outcome, ...(only === "fatal" ? { fatal: true } : { fatal: only?.fatal ?? false, nodes: only }) } };
    }
  }
  return out;
}

/** Makes values that are the same in every directory. */
export function same(values: Record<string, unknown>): Record<string, () => unknown> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, () => value]));
}
