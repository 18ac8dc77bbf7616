import { constants } from "../fs/constants.js";
import { Directory, errno, File, type Node } from "./tree.js";

const { O_RDONLY, O_WRONLY, O_RDWR, O_CREAT, O_EXCL, O_TRUNC, O_APPEND, O_SYNC } = constants;
const accessMode = 3;

const letters: Readonly<Record<string, number>> = { r: O_RDONLY, w: O_WRONLY | O_CREAT | O_TRUNC, a: O_WRONLY | O_CREAT | O_APPEND };

/** Returns open flags as Linux numbers: of Node's string, or of the number itself. EINVAL for others. */
export function flagsOf(form: { case?: string | undefined; value?: unknown } | undefined, otherwise: string): number {
  const value = form?.value ?? otherwise;
  if (typeof value === "number") {
    if (value < 0) throw errno("EINVAL");
    return value;
  }
  const text = value as string;
  const letter = letters[/[rwa]/.exec(text)?.[0] ?? ""];
  if (letter === undefined || !/^[rwasx]{1,2}\+?$/.test(text)) throw errno("EINVAL");
  const access = text.includes("+") ? O_RDWR : letter & accessMode;
  return (letter & ~accessMode) | access | (text.includes("x") ? O_EXCL : 0) | (text.includes("s") ? O_SYNC : 0);
}

/** Says whether flags let one read, or write. */
export const reads = (flags: number): boolean => (flags & accessMode) !== O_WRONLY;
export const writes = (flags: number): boolean => (flags & accessMode) !== O_RDONLY;

/** An open file or directory. */
export class Open {
  position = 0;
  readonly openedNs = BigInt(Date.now()) * 1_000_000n;
  /** What Close does with an atomic handle, whose file has no name before. */
  commit: (() => void) | undefined;

  constructor(readonly node: Node, readonly flags: number, readonly path: string) {}

  /** Reads from a position, or from the handle's own, which then moves. Returns a view that is valid until the next write. */
  read(length: number, position = -1): Uint8Array {
    const file = this.file("read");
    const view = file.view(position < 0 ? this.position : position, length);
    if (position < 0) this.position += view.length;
    file.accessed();
    return view;
  }

  /** Writes at a position, or at the handle's own, which then moves; at the end of a file that was opened to append. */
  write(data: Uint8Array, position = -1): void {
    const file = this.file("write");
    const at = this.flags & O_APPEND ? file.size : position < 0 ? this.position : position;
    if (data.length > 0) file.write(data, at);
    if (position < 0) this.position = at + data.length;
  }

  truncate(size: number): void {
    if (!writes(this.flags)) throw errno("EINVAL");
    this.file("write").truncate(size);
  }

  private file(use: "read" | "write"): File {
    if (use === "read" ? !reads(this.flags) : !writes(this.flags)) throw errno("EBADF");
    if (this.node instanceof Directory) throw errno("EISDIR");
    return this.node as File;
  }
}
