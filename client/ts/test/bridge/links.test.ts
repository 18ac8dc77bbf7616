import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { afterAll, beforeAll, expect, test } from "vitest";
import { SessionRequestSchema, SessionResponseSchema } from "../../src/gen/ctxfs/v1/session_pb.js";
import { grpcDialer } from "../../src/links/grpc.js";
import { wsDialer } from "../../src/links/ws.js";
import { callOf } from "../call.js";
import { startTestServer, type TestServer } from "../serve.js";

let server: TestServer;
let token: string;
beforeAll(async () => {
  server = await startTestServer();
  ({ token } = await server.openPanel("links"));
});
afterAll(() => server.stop());

type Init = Parameters<typeof create<typeof SessionRequestSchema>>[1];
const encode = (init: Init): Uint8Array => toBinary(SessionRequestSchema, create(SessionRequestSchema, init));

// A bridge keeps messages until a panel takes them, and forwards them unread.
test.each([["WebSocket", wsDialer], ["gRPC", grpcDialer]])("a message of a %s link is its receiver's for good", async (_, dialerOf) => {
  const dialer = dialerOf({ socket: server.socket, secure: false });
  const link = await dialer.dial(token);
  const kept: Uint8Array[] = [];
  const count = 200;
  const answered = new Promise<void>((resolve, reject) => {
    link.onclose = reject;
    link.onmessage = (bytes) => { if (kept.push(bytes) > count) resolve(); };
  });
  link.send(encode({ request: { case: "open", value: {} } }));
  for (let i = 1; i <= count; i++) {
    link.send(encode({ id: BigInt(i), request: callOf("stat", { path: `/missing-${i}` }) }));
  }
  await answered;
  link.onclose = null;
  link.close();
  dialer.close();
  const told = kept.slice(1).map((bytes) => fromBinary(SessionResponseSchema, bytes)).map(({ id, response }) => [Number(id), response.case === "error" ? response.value.metadata.path : response.case]);
  expect(new Map(told as [number, string][])).toEqual(new Map(Array.from({ length: count }, (_, i) => [i + 1, `/missing-${i + 1}`])));
});
