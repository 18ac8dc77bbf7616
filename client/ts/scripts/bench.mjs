// Measures the transports of Node against a real server: `npm run bench -- [--rounds 5]`. It prints one line for each
// transport and case: the median time of a call, or of the whole, in microseconds.
import { Buffer } from "node:buffer";
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, mkdirSync, readFileSync, rmSync, watch, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { argv, env, hrtime, stdout } from "node:process";
import { connect } from "../dist/esm/index.js";

const rounds = Number(argv[argv.indexOf("--rounds") + 1] ?? 5) || 5;
const only = argv.includes("--only") ? argv[argv.indexOf("--only") + 1] : "";
const bin = env.CTXFS_BIN ?? "ctxfs";
const workspace = mkdtempSync(join(tmpdir(), "ctxfs-bench-"));
mkdirSync(join(workspace, "repo"));
const ready = join(workspace, "ready");
const server = spawn(bin, ["serve", "--workspace", workspace, "--seed-root", "repo", "--http", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--ready-file", ready], { stdio: "ignore" });
await new Promise((resolve) => { const w = watch(workspace, (_, name) => { if (name === "ready") { w.close(); resolve(); } }); });
const record = JSON.parse(readFileSync(join(workspace, ".contexts/.ctxfs/server.json"), "utf8"));
const socket = record.socket.replace(/^unix:\/\//, "");
const tcp = record.addresses.find((address) => !address.startsWith("unix"));
const panel = JSON.parse(execFileSync(bin, ["panel", "open", "--json", "bench"], { env: { ...env, CTXFS_ADDRESS: `unix://${socket}` } }));

const transports = {
  "ws, unix socket": { socket, transport: "ws" },
  "grpc-js, unix socket": { socket, transport: "grpc" },
  "ws, TCP": { address: tcp, transport: "ws" },
  "grpc-js, TCP": { address: tcp, transport: "grpc" },
};

const large = 256 << 20;
const cases = {
  "stat": { n: 2000, run: async (fs) => { await fs.stat("/d/f0"); } },
  "stat, 32 at once": { n: 300, per: 32, run: (fs) => Promise.all(Array.from({ length: 32 }, (_, i) => fs.stat(`/d/f${i}`))) },
  "read 4 KiB": { n: 2000, run: async (fs) => { await fs.readFile("/d/f0"); } },
  "10,000 stats": { n: 3, run: (fs) => Promise.all(Array.from({ length: 10_000 }, (_, i) => fs.stat(`/d/f${i}`))) },
  "read 256 MiB": { n: 1, run: async (fs) => { if ((await fs.readFile("/large")).length !== large) throw new Error("short"); } },
  "write 256 MiB": { n: 1, run: (fs) => fs.writeFile("/large2", content) },
};
const content = Buffer.alloc(large, "0123456789");

const folder = join(workspace, ".contexts", panel.contextId);
mkdirSync(join(folder, "d"));
for (let i = 0; i < 10_000; i++) writeFileSync(join(folder, `d/f${i}`), Buffer.alloc(4096));
writeFileSync(join(folder, "large"), content);

const results = {};
for (let round = 0; round < rounds; round++) {
  for (const [name, options] of Object.entries(transports)) {
    if (only && !name.startsWith(only)) continue;
    const fs = await connect({ ...options, token: panel.token });
    for (const [title, { n, per = 1, run }] of Object.entries(cases)) {
      if (n > 1) await run(fs);
      const start = hrtime.bigint();
      for (let i = 0; i < n; i++) await run(fs);
      ((results[title] ??= {})[name] ??= []).push(Number(hrtime.bigint() - start) / 1000 / n / per);
    }
    await fs.disconnect();
  }
}
for (const [title, byName] of Object.entries(results)) {
  for (const [name, times] of Object.entries(byName)) {
    stdout.write(`${title.padEnd(18)} ${name.padEnd(22)} ${times.sort((a, b) => a - b)[times.length >> 1].toFixed(1).padStart(12)}\n`);
  }
}
server.kill();
rmSync(workspace, { recursive: true, force: true });
