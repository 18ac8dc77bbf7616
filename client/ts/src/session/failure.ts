import { pathsOf } from "./errorpaths.js";
import { systemError, type SystemError } from "../errors/system.js";
import type { SessionError } from "../gen/ctxfs/v1/session_pb.js";

/** gRPC's codes that matter here. */
export const grpcCode = { cancelled: 1, unauthenticated: 16, permissionDenied: 7, unavailable: 14 } as const;

/** What the server said of a failure: an error as Node gives it, or one of the connection. */
export type SessionFailure = (SystemError | Error) & { grpc?: number };

/** Makes the error that a SessionError tells of. */
export function sessionError(e: SessionError): SessionFailure {
  const error: SessionFailure = e.reason === "" ? new Error(e.message) : systemErrorOf(e.reason, e.metadata);
  Object.defineProperty(error, "grpc", { value: e.code, configurable: true });
  return error;
}

/** Makes the error that an ErrorInfo's reason and metadata tell of. */
export function systemErrorOf(reason: string, metadata: Readonly<Record<string, string>>): SystemError {
  const { errno, syscall, hint, detail, kind, written } = metadata;
  // Node has one name for the two, which are one number.
  return systemError({
    ...pathsOf(reason, metadata),
    code: reason === "EOPNOTSUPP" ? "ENOTSUP" : reason, errno: errno ? -Number(errno) : undefined, syscall, hint, detail, kind,
    written: written ? Number(written) : undefined,
  });
}
