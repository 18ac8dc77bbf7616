import { describe, expect, it } from "vitest";
import { requestHead } from "../src/links/upgrade.js";

describe("a request's head", () => {
  it("holds its lines and headers", () => {
    expect(requestHead(["GET / HTTP/1.1", "Host: a"], { B: "c" })).toBe("GET / HTTP/1.1\r\nHost: a\r\nB: c\r\n\r\n");
  });

  it.each(["p\r\n\r\nPUT / HTTP/1.1", "p\nq", "p\rq", "p\0", "\u00e9"])("refuses a header that could end it: %j", (value) => {
    expect(() => requestHead(["GET / HTTP/1.1"], { "Ctxfs-Panel": value })).toThrow("Ctxfs-Panel cannot be sent");
  });
});
