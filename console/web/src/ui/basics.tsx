// Small pieces: buttons, badges, notes, tabs, tables' heads.
import { useId, useRef, type ComponentProps, type KeyboardEvent, type ReactNode } from "react";
import { asApiError } from "../api";

export type Tone = "good" | "bad" | "warn" | "info" | "plain";

interface ButtonProps extends ComponentProps<"button"> {
  kind?: "primary" | "danger" | "quiet";
  small?: boolean;
  /** For a button that shows a sign alone; it needs a label. */
  icon?: boolean;
}

export function Button({ kind, small, icon, className, ...rest }: ButtonProps) {
  const names = ["button", kind, small && "small", icon && "icon", className].filter(Boolean).join(" ");
  return <button type="button" className={names} {...rest} />;
}

export function Badge({ tone = "plain", title, children }: { tone?: Tone; title?: string; children: ReactNode }) {
  return <span className={`badge ${tone}`} title={title}>{children}</span>;
}

export function Note({ tone = "plain", children }: { tone?: Tone; children: ReactNode }) {
  return <div className={`note ${tone}`}>{children}</div>;
}

/** Says that something runs. Screen readers hear the label. */
export function Spinner({ label = "Loading" }: { label?: string }) {
  return <span className="spinner" role="status">{label}…</span>;
}

export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** Says what failed and what to do about it; with a button where trying again may help. */
export function ErrorNote({ error, retry }: { error: unknown; retry?: () => void }) {
  const { message, hint } = asApiError(error);
  return (
    <div className="note bad" role="alert">
      <p>{message}</p>
      {hint && <p className="dim">{hint}</p>}
      {retry && <p><Button small onClick={retry}>Try again</Button></p>}
    </div>
  );
}

export interface Tab {
  id: string;
  label: ReactNode;
}

/** Tabs whose panel is the child. Arrow keys, Home and End move between them. */
export function Tabs({ label, tabs, current, onSelect, children }: { label: string; tabs: readonly Tab[]; current: string; onSelect: (id: string) => void; children: ReactNode }) {
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const move = (event: KeyboardEvent) => {
    const index = tabs.findIndex((tab) => tab.id === current);
    const to = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: tabs.length - 1 }[event.key];
    const target = to === undefined ? undefined : tabs[(to + tabs.length) % tabs.length];
    if (!target) return;
    event.preventDefault();
    onSelect(target.id);
    list.current?.querySelector<HTMLElement>(`[data-tab="${CSS.escape(target.id)}"]`)?.focus();
  };
  return (
    <>
      <div className="tabs" role="tablist" aria-label={label} ref={list} onKeyDown={move}>
        {tabs.map((tab) => (
          <button key={tab.id} type="button" role="tab" id={`${id}-${tab.id}`} data-tab={tab.id} aria-selected={tab.id === current} aria-controls={`${id}-panel`} tabIndex={tab.id === current ? 0 : -1} onClick={() => onSelect(tab.id)}>
            {tab.label}
          </button>
        ))}
      </div>
      <div role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${current}`} className="stack grow">{children}</div>
    </>
  );
}

export interface Column<Row> {
  id: string;
  title: string;
  cell: (row: Row) => ReactNode;
  /** Right-aligned figures. */
  numeric?: boolean;
  /** What the column is sorted by; without it the head is no button. */
  sort?: (row: Row) => string | number;
  className?: string;
}

export interface Sorting {
  column: string;
  descending: boolean;
}

interface TableProps<Row> {
  /** Says what the table lists, for screen readers. */
  caption: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  keyOf: (row: Row) => string;
  sorting?: Sorting;
  onSort?: (sorting: Sorting) => void;
  rowProps?: (row: Row) => Record<string, unknown>;
}

/** A table with a fixed head; columns that can be sorted have a button there. */
export function Table<Row>({ caption, columns, rows, keyOf, sorting, onSort, rowProps }: TableProps<Row>) {
  return (
    <div className="table-scroll" role="region" aria-label={caption} tabIndex={0}>
      <table className="table">
        <caption className="visually-hidden">{caption}</caption>
        <thead>
          <tr>{columns.map((column) => <Head key={column.id} column={column} sorting={sorting} onSort={onSort} />)}</tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)} {...rowProps?.(row)}>
              {columns.map((column) => <td key={column.id} className={cellClass(column)}>{column.cell(row)}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Head<Row>({ column, sorting, onSort }: { column: Column<Row>; sorting?: Sorting; onSort?: (sorting: Sorting) => void }) {
  const active = sorting?.column === column.id;
  const order = active ? (sorting.descending ? "descending" : "ascending") : undefined;
  return (
    <th scope="col" className={cellClass(column)} aria-sort={order}>
      {column.sort && onSort ? (
        <button type="button" onClick={() => onSort({ column: column.id, descending: active && !sorting.descending })}>
          {column.title}
          {active && <span aria-hidden="true">{sorting.descending ? "↓" : "↑"}</span>}
        </button>
      ) : column.title}
    </th>
  );
}

function cellClass<Row>(column: Column<Row>): string | undefined {
  return [column.numeric && "num", column.className].filter(Boolean).join(" ") || undefined;
}

/** Sorts rows as a table's head says. Text is sorted with its numbers as numbers. */
export function sortRows<Row>(rows: readonly Row[], columns: readonly Column<Row>[], sorting: Sorting): Row[] {
  const sort = columns.find((column) => column.id === sorting.column)?.sort;
  if (!sort) return [...rows];
  const sign = sorting.descending ? -1 : 1;
  return rows
    .map((row) => ({ row, by: sort(row) }))
    .sort((a, b) => sign * (typeof a.by === "number" && typeof b.by === "number" ? a.by - b.by : collator.compare(String(a.by), String(b.by))))
    .map(({ row }) => row);
}

const collator = new Intl.Collator(undefined, { numeric: true });
