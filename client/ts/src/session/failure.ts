import type { Any } from "@bufbuild/protobuf/wkt";
import { ConnectionError } from "../errors/connection.js";
import { CtxfsError, type GitRefusal } from "../errors/ctxfs.js";
import { abortError } from "../errors/node.js";
import { inFunctions } from "../errors/words.js";
import { systemError, type SystemError } from "../errors/system.js";
import type { SessionError } from "../gen/ctxfs/v1/session_pb.js";
import { refusedOf } from "../review/convert.js";
import { pathsOf } from "./errorpaths.js";

type Metadata = Readonly<Record<string, string>>;

/** The gRPC status codes that the client acts on. */
export const grpcCode = { cancelled: 1, unauthenticated: 16 } as const;

/**
 * The reason why a call failed, before an Error exists. The stack of an Error shows where the Error was made. A reply
 * arrives in a socket's handler, so each caller makes its own Error after its functions have resumed.
 */
export abstract class Failure {
  /** Makes the Error that one caller gets. */
  abstract error(): Error;
}

/** The server answered with an error. */
export class Refusal extends Failure {
  constructor(private readonly said: SessionError) {
    super();
  }

  /** The gRPC status code. */
  get grpc(): number {
    return this.said.code;
  }

  /** The server's message. */
  get message(): string {
    return this.said.message;
  }

  /** The error has a reason, and not only a gRPC status. */
  get isSystemError(): boolean {
    return this.said.reason !== "";
  }

  error(): Error {
    const { reason, message, metadata, details } = this.said;
    return reason === "" ? new Error(message) : errorOf(reason, metadata, details);
  }
}

/** Makes the error that an ErrorInfo and the other details of a status describe. */
export function errorOf(reason: string, metadata: Metadata, details: readonly Any[]): Error {
  const detail = inFunctions(metadata.detail ?? "");
  const hint = inFunctions(metadata.hint ?? "");
  if (metadata.errno !== undefined) return systemErrorOf(reason, { ...metadata, detail, hint });
  const refused = refusedOf(details);
  return new CtxfsError({ reason, detail, hint, ...refused, git: gitRefusalOf(metadata, refused.files.map(({ path }) => path)) });
}

/** Returns what an error of git is about; undefined for other errors. */
function gitRefusalOf(metadata: Metadata, paths: string[]): GitRefusal | undefined {
  if (metadata.kind !== "git") return undefined;
  const { operation = "", repo = "", ref = "", expected = "", actual = "" } = metadata;
  return { operation, repo, ref, expected, actual, paths, mayHaveHappened: metadata.may_have_happened === "true" };
}

/** The caller's signal fired. */
export class Aborted extends Failure {
  constructor(private readonly reason: unknown) {
    super();
  }

  error(): Error {
    return abortError(this.reason);
  }
}

/** The connection was lost before the reply. */
export class Lost extends Failure {
  /** mayHaveHappened says that the server may have done what was asked. */
  constructor(private readonly why: Refusal | Error, private readonly mayHaveHappened: boolean) {
    super();
  }

  error(): Error {
    return new ConnectionError("ECONNRESET", `the connection to ctxfs was lost (${this.why.message})`, this.mayHaveHappened, causeOf(this.why));
  }
}

/** Returns the Error of a reason, for another Error's cause. */
export function causeOf(why: unknown): unknown {
  return why instanceof Failure ? why.error() : why;
}

function systemErrorOf(reason: string, metadata: Metadata): SystemError {
  const { errno, syscall, hint, detail, kind, written, etag, step } = metadata;
  // EOPNOTSUPP and ENOTSUP are one number. Node has the second name only.
  return systemError({
    ...pathsOf(reason, metadata),
    code: reason === "EOPNOTSUPP" ? "ENOTSUP" : reason, errno: errno ? -Number(errno) : undefined, syscall, reason, hint, detail, kind,
    written: written ? Number(written) : undefined, etag, step: step ? Number(step) : undefined,
  });
}
