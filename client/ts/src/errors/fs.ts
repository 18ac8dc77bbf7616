import { systemErrors } from "./table.js";

/** The property info of Node's SystemError. */
export interface SystemInfo {
  message: string;
  path: string;
  syscall: string;
  /** The errno's name. */
  code: string;
}

/** Node's texts of the errors that fs makes of checks of its own. */
const texts = {
  ERR_FS_EISDIR: "Path is a directory",
  ERR_FS_CP_DIR_TO_NON_DIR: "Cannot overwrite non-directory with directory",
  ERR_FS_CP_NON_DIR_TO_DIR: "Cannot overwrite directory with non-directory",
  ERR_FS_CP_EEXIST: "Target already exists",
  ERR_FS_CP_EINVAL: "Invalid src or dest",
  ERR_FS_CP_FIFO_PIPE: "Cannot copy a FIFO pipe",
  ERR_FS_CP_SOCKET: "Cannot copy a socket file",
  ERR_FS_CP_UNKNOWN: "Cannot copy an unknown file type",
  ERR_FS_CP_SYMLINK_TO_SUBDIRECTORY: "Cannot overwrite symlink in subdirectory of self",
} as const;

/** The SystemError that Node's rm and cp reject with. errno is positive there. */
export function fsError(key: keyof typeof texts, info: SystemInfo): Error {
  const { message, path, syscall, code } = info;
  const error = new SystemError(`${texts[key]}: ${syscall} returned ${code} (${message}) ${path}`);
  const errno = -(systemErrors[code]?.[0] ?? 0);
  Object.assign(error, { code: key, info: { ...info, errno }, errno, syscall, path });
  if (typeof error.stack === "string") error.stack = error.stack.replace(/^[^:]*/, `SystemError [${key}]`);
  return error;
}

/** Node's own class of these errors, whose text has the code in it. */
class SystemError extends Error {
  declare code: string;
  static {
    Object.defineProperty(this.prototype, "name", { value: "SystemError", configurable: true, writable: true });
  }

  override toString(): string {
    return `${this.name} [${this.code}]: ${this.message}`;
  }
}
