// A client of json-server.mjs: several connections with many requests under way on each.
import { WebSocket } from "ws";

// piece is what of a large file one message carries, in bytes; several are under way.
const piece = 1 << 20;
const piecesUnderWay = 8;

const connect = (url) => new Promise((resolve, reject) => {
  const waiting = new Map();
  let next = 0;
  const socket = new WebSocket(url, { perMessageDeflate: false, maxPayload: 32 << 20 });
  const call = (op, args) => new Promise((done, failed) => {
    const id = ++next;
    waiting.set(id, { done, failed });
    socket.send(JSON.stringify({ id, op, ...args }));
  });
  socket.on("message", (data) => {
    const reply = JSON.parse(data);
    const { done, failed } = waiting.get(reply.id);
    waiting.delete(reply.id);
    if (reply.error) failed(Object.assign(new Error(reply.error), { code: reply.error }));
    else done(reply);
  });
  socket.on("open", () => resolve({ call, close: () => socket.terminate() }));
  socket.on("error", reject);
});

export const jsonClient = async ({ url, connections }) => {
  const sockets = await Promise.all(Array.from({ length: connections }, () => connect(url)));
  const call = (worker, op, args) => sockets[worker % sockets.length].call(op, args);
  return {
    stat: (worker, name) => call(worker, "stat", { name }),
    readFile: async (worker, name) => Buffer.from((await call(worker, "readFile", { name })).data, "base64"),
    stream: async (name) => {
      const { size } = await call(0, "stat", { name });
      const { fd } = await call(0, "open", { name, flags: "r" });
      let next = 0, read = 0;
      const take = async () => {
        while (next < size) {
          const offset = next;
          next += piece;
          const { data } = await call(0, "read", { fd, offset, length: Math.min(piece, size - offset) });
          read += Buffer.from(data, "base64").length;
        }
      };
      await Promise.all(Array.from({ length: piecesUnderWay }, take));
      await call(0, "close", { fd });
      return read;
    },
    close: () => sockets.forEach((s) => s.close()),
  };
};
