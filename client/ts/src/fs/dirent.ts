import { FileType } from "../gen/ctxfs/v1/fs_types_pb.js";

/** An entry of a directory, for platforms without Node's Dirent. */
export class Dirent<Name extends string | Uint8Array = string> {
  /** The name alone. */
  declare name: Name;
  /** The directory of the entry, as the program named it. */
  declare parentPath: string;
  /** As parentPath, for programs written for Node before 20.12. */
  declare path: string;
  readonly #type: FileType;

  /** Makes an entry. The numbers of types are also those of Node's Dirent. */
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
