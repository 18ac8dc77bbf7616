#!/usr/bin/env node
"use strict";
// Runs the program of the platform's package, which npm installs as an optional dependency.
const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const name = `@ctxfs/${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/bin/ctxfs${process.platform === "win32" ? ".exe" : ""}`);
} catch {
  console.error(`ctxfs: the package ${name} is missing: install ctxfs again, without --omit=optional; on a platform without a package, build ctxfs from source`);
  process.exit(1);
}
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`ctxfs: ${program} cannot be run: ${error.message}`);
  process.exit(126);
});
child.on("exit", (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
