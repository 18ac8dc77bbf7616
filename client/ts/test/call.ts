import { create, toBinary, type DescMessage } from "@bufbuild/protobuf";
import { FsService } from "../src/gen/ctxfs/v1/fs_pb.js";
import type { OpName } from "../src/session/operations.js";

/** What a SessionRequest holds that calls an RPC of FsService. */
export function callOf(op: Extract<OpName, keyof typeof FsService.method>, request: Record<string, unknown>) {
  const { name, input } = FsService.method[op] as { name: string; input: DescMessage };
  return { case: "call" as const, value: { method: `/${FsService.typeName}/${name}`, data: toBinary(input, create(input, request)) } };
}
