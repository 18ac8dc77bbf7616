import type { Client } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ContextService } from "../../src/gen/ctxfs/v1/context_pb.js";
import { PanelService } from "../../src/gen/ctxfs/v1/panel_pb.js";
import { grpcClient } from "../../src/links/grpc.js";
import { contextIdForPanel, parseContextId } from "../../src/runtime.js";
import { unary } from "../../src/server/calls.js";
import { startTestServer, type TestServer } from "../serve.js";

let server: TestServer;
let client: Client;
beforeAll(async () => {
  server = await startTestServer();
  client = grpcClient({ socket: server.socket, secure: false });
});
afterAll(async () => {
  client.close();
  await server.stop();
});

/** What the server makes of a panel's ID: its context's, or the code of its refusal. */
async function theirsForPanel(panelId: string): Promise<string> {
  return unary(client, "", PanelService.method.openPanel, { panelId }).then(({ contextId }) => contextId, (e: unknown) => (e as { code: string }).code);
}

function oursForPanel(panelId: string): string {
  try {
    return contextIdForPanel(panelId);
  } catch (error) {
    return (error as { code: string }).code;
  }
}

test.each([
  "panels/editor", "a:b", "a~c", "A.b_c-D9", "x".repeat(196), "x".repeat(197), "", ".", "...", "a..b", "../up", "/", "a//b", "a b", "ä", "a\nb",
  "a\\b", "~~", ":::", "safe_tpl_0123456789ab_x", "noctx\u0000", "💾",
])("panel %j has the context that the server gives it", async (panelId) => {
  expect(oursForPanel(panelId)).toBe(await theirsForPanel(panelId));
});

const ids = [
  "ctx_x", "ctx_a~b.c-D_9", "safe_tpl_0123456789ab_panel~x", "unsafe_noctx_tool", `ctx_${"x".repeat(196)}`, "ctx_safe_tpl_0123456789ab_nested",
  "", "x", "ctx_", "ctx_.", "ctx_..", "ctx_...", "ctx_a/b", "ctx_a\\b", "ctx_a b", "ctx_a\u0000", "ctx_ä", "CTX_a", "unsafe_tpl_0123456789ab_x",
  "safe_tpl_0123456789a_x", "safe_tpl_0123456789AB_x", "safe_tpl_0123456789ab_", "safe_tpl_0123456789ab_a\u2028b", "unsafe_noctx_",
  `ctx_${"x".repeat(197)}`, "ctx_a\n", "ctx_a..b",
];

describe("context IDs are valid where the server takes them", () => {
  test.each(ids)("%j", async (contextId) => {
    const theirs = await unary(client, "", ContextService.method.getContext, { contextId }).then(() => "valid", (e: unknown) => (e as { code: string }).code);
    let ours = "valid";
    try {
      parseContextId(contextId);
    } catch (error) {
      ours = (error as { code: string }).code;
    }
    expect(ours).toBe(theirs);
  });
});

test.each([
  ["ctx_x", "safe", null, "x"],
  ["ctx_panels~editor", "safe", null, "panels~editor"],
  ["safe_tpl_0123456789ab_p_q", "safe", "0123456789ab", "p_q"],
  ["unsafe_noctx_tool", "unsafe", null, "tool"],
  ["ctx_safe_tpl_0123456789ab_x", "safe", null, "safe_tpl_0123456789ab_x"],
])("%s is taken apart", (id, mode, templateSpecHash, instanceId) => {
  expect(parseContextId(id)).toEqual({ mode, templateSpecHash, instanceId });
});

test("refusals name the ID and the rule", () => {
  expect(() => parseContextId("ctx_a b")).toThrow('bad context ID "ctx_a b": a name has only A-Z a-z 0-9 . _ ~ -, and not dots alone');
  expect(() => contextIdForPanel("a b")).toThrow(/^panel ID "a b" has no context ID of its own: .* name an explicit contextId$/);
});
