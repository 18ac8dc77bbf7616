// Attacks by pages on the hub of a site.
import type { Frame, Page } from "playwright-core";
import type * as Pages from "../../src/pages/index.js";
import { framedBy, policy, type Row } from "./attack.js";
import type { Removal, Stage } from "./lair.js";

/** What the shell's page has. */
declare const pages: typeof Pages;
declare const hub: Pages.Hub;

/** Changes what the server wrote into the hub's page. */
const moreParents = (origin: (stranger: string) => string): Removal => ({ body: (text, path, stranger) => (path.startsWith("/__ctxfs/hub.html") ? text.replace(/("parents":\["[^\]]*)\]/, `$1,"${origin(stranger)}"]`) : text) });
const changed = (script: string, from: string, to: string): Removal => ({
  body(text, path) {
    if (path !== `/__ctxfs/${script}`) return text;
    if (!text.includes(from)) throw new Error(`${script} has no ${from}`);
    return text.replace(from, to);
  },
});

/** Opens a site with its hub in the shell, has another frame of the shell run an attack on the hub's window, and returns what the hub then has. */
async function poisons(s: Stage, show: (page: Page, s: Stage) => Promise<Frame>, attack: (id: string) => void): Promise<string> {
  const site = await s.open("attacker", { hub: true });
  const { page } = await s.show(site);
  const other = await show(page, s);
  const inHub = page.frames().find((frame) => frame.url().includes("/__ctxfs/hub.html")) as Frame;
  await inHub.evaluate(() => { Object.assign(globalThis, { arrived: new Promise((resolve) => { addEventListener("message", ({ data }) => { if (data === "last") resolve(0); }); }) }); });
  await other.evaluate(attack, site.id);
  await other.evaluate(() => { parent.frames[0]?.postMessage("last", "*"); });
  await inHub.evaluate(() => (globalThis as unknown as { arrived: Promise<unknown> }).arrived);
  for (let i = 0; i < 100; i++) { // what came over a port may be taken later
    const { pushed } = await page.evaluate(() => hub.status());
    if (pushed > 0) return `${String(pushed)} files put`;
  }
  return "";
}

const putsFiles = (id: string): void => { parent.frames[0]?.postMessage({ type: "PUT_FILES", sessionId: id, files: { "poison.js": "x" } }, "*"); };
const framed = (attributes: Record<string, string>) => async (page: Page): Promise<Frame> => {
  const element = await page.evaluateHandle((attributes) => {
    const frame = document.createElement("iframe");
    for (const [name, value] of Object.entries(attributes)) frame.setAttribute(name, value);
    document.body.append(frame);
    return new Promise<HTMLIFrameElement>((resolve) => { frame.onload = () => { resolve(frame); }; });
  }, attributes);
  return await element.contentFrame() as Frame;
};

const strangers = (page: Page, s: Stage): Promise<Frame> => framed({ src: s.lair.stranger })(page);

/** Puts an entry into the store of the site's hub, as any page of the site can, and has the worker forget what it read. */
const stores = (frame: Frame, path: string, html: string): Promise<void> => frame.evaluate(async ({ key, html }) => {
  const request = indexedDB.open("ctxfs-files");
  await new Promise((resolve) => { request.onsuccess = resolve; });
  const change = request.result.transaction("files", "readwrite");
  change.objectStore("files").put({ key, headers: [["Content-Type", "text/html"], ["Content-Security-Policy", ""]], body: new TextEncoder().encode(html).buffer });
  await new Promise((resolve) => { change.oncomplete = resolve; });
  request.result.close();
  const { port1, port2 } = new MessageChannel();
  const dropped = new Promise((resolve) => { port1.onmessage = resolve; });
  navigator.serviceWorker.controller?.postMessage({ ask: "drop" }, [port2]);
  await dropped;
}, { key: `pushed:${path}`, html });

const mount = async (page: Page, { id, url, origin }: Pages.Site, path: string): Promise<Frame> => {
  const element = await page.evaluateHandle(({ site, path }) => pages.mountPage(document.body, site, path), { site: { id, url, origin, hubUrl: "" }, path });
  const frame = await element.contentFrame() as Frame;
  await frame.waitForLoadState();
  return frame;
};

/** The rows. */
export const hubs: Row[] = [
  { name: "of a stranger puts files into a hub", without: moreParents((stranger) => stranger), attack: (s) => poisons(s, strangers, putsFiles) },
  { name: "of an opaque origin in the parent puts files into a hub", without: moreParents(() => "null"), attack: (s) => poisons(s, framed({ sandbox: "allow-scripts", srcdoc: "<p>x" }), putsFiles) },
  {
    name: "of a stranger puts files into a hub over a port", without: moreParents((stranger) => stranger),
    attack: (s) => poisons(s, strangers, (id) => {
      const { port1, port2 } = new MessageChannel();
      parent.frames[0]?.postMessage({ type: "HELLO" }, "*", [port2]);
      port1.postMessage({ type: "PUT_FILES", sessionId: id, files: { "poison.js": "x" } });
    }),
  },
  {
    name: "puts files into the hub of another site than it says", without: changed("hub.js", "request.sessionId !== config.site", "false"),
    async attack(s) {
      const { page } = await s.show(await s.open("attacker", { hub: true }));
      const { id } = await s.open("victim", { hub: true });
      return page.evaluate((id) => new Promise<string>((resolve) => {
        addEventListener("message", ({ data }: MessageEvent<{ id?: number; type: string }>) => { if (data.id === 7) resolve(data.type === "OK" ? "files put" : ""); });
        frames[0]?.postMessage({ type: "PUT_FILES", id: 7, sessionId: id, files: { "poison.js": "x" } }, "*");
      }), id);
    },
  },
  ...([["__ctxfs/sw.js", `segments[0] === "__ctxfs"`], ["a/../../b", `s === ".."`], ["//b", `s === ""`]] as const).map(([path, check]): Row => ({
    name: `that is a parent puts a file at ${path}`, without: changed("hub.js", check, "false"),
    async attack(s) {
      const { page } = await s.show(await s.open("attacker", { hub: true }));
      return page.evaluate((path) => hub.putFiles({ [path.replace(/^\/\//, "a//")]: "x" }).then(() => "put", () => ""), path);
    },
  })),
  { name: "of a stranger shows a hub in a frame", without: policy, attack: async (s) => framedBy(await s.visit(s.lair.stranger), (await s.open("attacker", { hub: true })).hubUrl, "ctxfs") },
  {
    name: "hides what the parent put by a hub with another storage", without: changed("hub.js", "await claim()", "await 0"),
    async attack(s) {
      const { page, frame } = await s.show(await s.open("attacker", { hub: true }));
      await page.evaluate(() => hub.putFiles({ "draft.txt": "draft" }));
      return frame.evaluate(async () => {
        const other = Object.assign(document.createElement("iframe"), { src: "/__ctxfs/hub.html?storage=memory" });
        document.body.append(other);
        await new Promise((resolve) => { other.onload = resolve; });
        for (let n = 0; n < 500; n++) { // a hub tells only its parents when it is open
          const text = await (await fetch("/draft.txt")).text();
          if (text !== "draft") return text;
        }
        return "";
      });
    },
  },
  {
    name: "loses its policy by what it stores", without: { body: (text, path) => (path === "/__ctxfs/sw.js" ? text.replace(/"headers":\{[^}]*\}/, `"headers":{}`) : text) },
    async attack(s) {
      const site = await s.open("attacker", { hub: true, policy: "no-network" });
      const { page, frame } = await s.show(site);
      await stores(frame, "/free.html", "<p>free");
      return (await mount(page, site, "/free.html")).evaluate((to) => fetch(`${to}/free`).then(() => "the network", () => ""), s.lair.stranger);
    },
  },
  {
    name: "outlives its site by what it stores", without: changed("sw.js", "response?.status === 404 ? response : void 0", "void 0"),
    async attack(s) {
      const site = await s.open("attacker", { hub: true });
      const { page, frame } = await s.show(site);
      await stores(frame, "/index.html", "<title>undead</title>");
      await site.end();
      const title = await (await mount(page, site, "/index.html")).title();
      return title === "undead" ? title : "";
    },
  },
];
