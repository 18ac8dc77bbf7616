// A file service of JSON messages over WebSocket, content as base64: one message a request,
// one a reply, matched by id. Run: node server.mjs ROOT. It says "ready HOST:PORT" and ends
// with its standard input.
import { promises as fs } from "node:fs";
import path from "node:path";
import { WebSocketServer } from "ws";

const root = path.resolve(process.argv[2]);

// handles are open files by number, for content too large for one message.
const handles = new Map();
let nextHandle = 1;

const within = (name) => {
  const full = path.join(root, name);
  if (full !== root && !full.startsWith(root + path.sep)) {
    throw Object.assign(new Error("outside of the root"), { code: "EACCES" });
  }
  return full;
};

const attributes = (s) => ({
  size: s.size, mode: s.mode, ino: s.ino, mtimeMs: s.mtimeMs, ctimeMs: s.ctimeMs, atimeMs: s.atimeMs,
  directory: s.isDirectory(),
});

const operations = {
  stat: async ({ name }) => attributes(await fs.stat(within(name))),
  readFile: async ({ name }) => ({ data: (await fs.readFile(within(name))).toString("base64") }),
  open: async ({ name, flags }) => {
    const fd = nextHandle++;
    handles.set(fd, await fs.open(within(name), flags));
    return { fd };
  },
  read: async ({ fd, offset, length }) => {
    const { bytesRead, buffer } = await handles.get(fd).read(Buffer.allocUnsafe(length), 0, length, offset);
    return { data: buffer.toString("base64", 0, bytesRead) };
  },
  close: async ({ fd }) => {
    const handle = handles.get(fd);
    handles.delete(fd);
    await handle.close();
  },
};

const answer = async (message) => {
  const { id, op, ...args } = JSON.parse(message);
  try {
    return JSON.stringify({ id, ...(await operations[op](args)) });
  } catch (e) {
    return JSON.stringify({ id, error: e.code ?? String(e) });
  }
};

const server = new WebSocketServer({ host: "127.0.0.1", port: 0, perMessageDeflate: false, maxPayload: 16 << 20 });
server.on("connection", (socket) => {
  socket.on("message", async (message) => { socket.send(await answer(message)); });
});
server.on("listening", () => console.log(`ready 127.0.0.1:${server.address().port}`));
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
