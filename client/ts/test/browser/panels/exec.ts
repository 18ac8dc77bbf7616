// A page that runs commands in the context of its panel.
import { createFs } from "@ctxfs/client";

const { url, token } = settings as { url: string; token: string };
const fs = createFs({ url, token });
const failure = (call: Promise<unknown>): Promise<unknown> => call.then(() => "no error", (e: unknown) => (e as { code?: string }).code);

const talk = fs.exec(["sh", "-c", "cat repo/hello.txt; read line; echo $line >&2; exit 3"], { stdin: "stream" });
const unavailable = await talk.started.then(() => "", (e: unknown) => {
  const { code, message } = e as { code?: string; message: string };
  if (code !== "EXEC_UNAVAILABLE") throw e;
  return message;
});
if (unavailable !== "") report({ unavailable });
else {
  const writer = talk.stdin.getWriter();
  await writer.write("typed\n");
  const [out, err] = [await new Response(talk.stdout).text(), await new Response(talk.stderr).text()];

  const shell = fs.exec(["sh", "-c", "stty size; read line; stty size"], { pty: { cols: 90, rows: 20 } });
  const sizes: string[] = [];
  for await (const line of shell.lines()) {
    if (!/^\d+ \d+$/.test(line)) continue;
    if (sizes.push(line) > 1) continue;
    await shell.resize(100, 50);
    await shell.stdin.getWriter().write("\n");
  }

  const endless = fs.exec(["sh", "-c", "while :; do echo line; done"]);
  for await (const line of endless.lines()) if (line === "line") break;
  const killed = await endless.kill(0);

  report({
    out, err, exit: (await talk.exit).code, sizes, killed: killed.reason,
    processes: (await fs.processes()).map(({ exit }) => exit?.reason),
    refused: await failure(fs.exec(["true"], { cwd: "/none" }).exit),
  });
}
await fs.disconnect();
