// Does work with a client in Node, and tells how long it took. Each line of standard input
// is a task in JSON, each line of standard output that begins with "did " its outcome:
//   {"dial":{"kind":"json","url":…,"connections":4}}
//   {"work":{"op":"stat","names":[…],"workers":32,"ms":200,"size":0}}
import { createInterface } from "node:readline";
import { ctxfsClient } from "./ctxfs-client.mjs";
import { jsonClient } from "./json-client.mjs";

const kinds = { json: jsonClient, ctxfs: ctxfsClient };

// cut is how long work of many parts may take before it is cut, in ms.
const cut = 1500;

const expect = (bytes, size) => {
  if (bytes !== size) throw new Error(`read ${bytes} bytes of ${size}`);
};

// Each takes a client and its work, and returns what a worker does; that returns the share of the work that was done.
const operations = {
  stat: (client, { names }) => async (worker, i) => {
    await client.stat(worker, names[(worker + i) % names.length]);
    return 1;
  },
  read: (client, { names, size }) => async (worker, i) => {
    expect((await client.readFile(worker, names[(worker + i) % names.length])).length, size);
    return 1;
  },
  walk: (client, { names, size: askers }) => async () => {
    const end = performance.now() + cut;
    let next = 0, done = 0;
    const ask = async (worker) => {
      while (next < names.length && !(next % 16 === 0 && performance.now() > end)) {
        await client.stat(worker, names[next++]);
        done++;
      }
    };
    await Promise.all(Array.from({ length: askers }, (_, worker) => ask(worker)));
    return done / names.length;
  },
  stream: (client, { names, size }) => async () => {
    expect(await client.stream(names[0]), size);
    return 1;
  },
};

const loop = async (client, work) => {
  const step = operations[work.op](client, work);
  const took = [];
  const begin = performance.now(), end = begin + work.ms;
  let ops = 0;
  const run = async (worker) => {
    for (let i = 0, last = performance.now(); ; i++) {
      const share = await step(worker, i);
      const now = performance.now();
      took.push(Math.round((now - last) * 1000 / share));
      ops += share;
      if (now > end) return;
      last = now;
    }
  };
  await Promise.all(Array.from({ length: work.workers }, (_, worker) => run(worker)));
  return { took, ops, ms: performance.now() - begin };
};

let client;
const tasks = {
  dial: async (options) => {
    await client?.close();
    client = await kinds[options.kind](options);
  },
  work: (work) => loop(client, work),
};

for await (const line of createInterface({ input: process.stdin })) {
  const [[task, options]] = Object.entries(JSON.parse(line));
  try {
    console.log("did " + JSON.stringify((await tasks[task](options)) ?? {}));
  } catch (e) {
    console.log("did " + JSON.stringify({ error: e.stack ?? String(e) }));
  }
}
process.exit(0);
