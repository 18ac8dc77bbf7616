import { FileType } from "../gen/ctxfs/v1/fs_types_pb.js";

/** A name in a directory, as Node's Dirent. */
export class Dirent<Name extends string | Uint8Array = string> {
  /** The name alone. */
  declare name: Name;
  /** The directory it stands in, as the program named it. */
  declare parentPath: string;
  /** As parentPath, for programs written for Node before 20.12. */
  declare path: string;
  readonly #type: FileType;

  /** Makes one. Programs get theirs from readdir and opendir. */
  constructor(name: Name, type: FileType, parentPath: string) {
    this.name = name;
    this.parentPath = parentPath;
    this.path = parentPath;
    this.#type = type;
  }

  isFile(): boolean { return this.#type === FileType.FILE; }
  isDirectory(): boolean { return this.#type === FileType.DIRECTORY; }
  isSymbolicLink(): boolean { return this.#type === FileType.SYMLINK; }
  isFIFO(): boolean { return this.#type === FileType.FIFO; }
  isSocket(): boolean { return this.#type === FileType.SOCKET; }
  isCharacterDevice(): boolean { return this.#type === FileType.CHARACTER_DEVICE; }
  isBlockDevice(): boolean { return this.#type === FileType.BLOCK_DEVICE; }
}
