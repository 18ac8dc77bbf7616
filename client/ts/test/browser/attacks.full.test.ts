// Attacks by pages, in Chromium. Each row is tried with all protections, where it must gain nothing, and once without the one protection that it
// names, where it must gain something: a row that cannot fail is no row.
import type { Frame, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import type * as Pages from "../../src/pages/index.js";
import { drop, framedBy, policy, type Row } from "./attack.js";
import { hubs } from "./attackhub.js";
import { channels, navigation, speculation } from "./channels.js";
import { startLair, type Lair, type Removal, type Stage } from "./lair.js";


/** What the shell's page has. */
declare const pages: typeof Pages;

let lair: Lair;
beforeAll(async () => { lair = await startLair(); });
afterAll(async () => { await lair.stop(); });

const resources = drop("cross-origin-resource-policy");
const opener = drop("cross-origin-opener-policy");

/** Loads something by an element, and evaluates an expression once it is loaded. */
const load = (page: Page | Frame, element: string, attributes: Record<string, string>, gained: string): Promise<string> => page.evaluate(async ({ element, attributes, gained }) => {
  const made = Object.assign(document.createElement(element), attributes);
  const loaded = new Promise<boolean>((resolve) => { made.onload = () => { resolve(true); }; made.onerror = () => { resolve(false); }; });
  document.head.append(made);
  return await loaded ? String((0, eval)(gained)) : "";
}, { element, attributes, gained });

/** Has a page open a window, and tells whether it keeps a hold of it. The window is an empty page at first, and the page hears a moment later that it lost it. */
async function opens(page: Page, url: string): Promise<string> {
  const popup = page.waitForEvent("popup");
  await page.evaluate((url) => { Object.assign(globalThis, { opened: open(url) }); }, url);
  await (await popup).waitForURL(url);
  const lost = page.waitForFunction(() => (globalThis as unknown as { opened: Window }).opened.closed, undefined, { timeout: 20_000 }); // clock: a window that stays takes the test all of this time
  return lost.then(() => "", () => page.evaluate(() => `its window, with ${String((globalThis as unknown as { opened: Window }).opened.length)} frames`));
}

const between: Row[] = [
  {
    name: "fetches another site's file", without: { response: (headers) => { headers["access-control-allow-origin"] = "*"; delete headers["cross-origin-resource-policy"]; } },
    async attack(s) {
      const { url } = await s.open("victim");
      return (await s.visit((await s.open("attacker")).url)).evaluate((url) => fetch(`${url}secret.txt`).then((r) => r.text(), () => ""), url);
    },
  },
  { name: "runs another site's script", without: resources, attack: async (s) => load(await s.visit((await s.open("attacker")).url), "script", { src: `${(await s.open("victim")).url}secret.js` }, "stolen") },
  { name: "measures another site's image", without: resources, attack: async (s) => load(await s.visit((await s.open("attacker")).url), "img", { src: `${(await s.open("victim")).url}secret.svg` }, `"its image"`) },
  {
    name: "applies another site's style sheet", without: resources,
    attack: async (s) => load(await s.visit((await s.open("attacker")).url), "link", { rel: "stylesheet", href: `${(await s.open("victim")).url}secret.css` }, `getComputedStyle(document.documentElement).getPropertyValue("--stolen")`),
  },
  { name: "shows another site in a frame", without: policy, attack: async (s) => framedBy(await s.visit((await s.open("attacker")).url), (await s.open("victim")).url, "victim") },
  { name: "keeps the window of a site that it opens", without: opener, attack: async (s) => opens(await s.visit((await s.open("attacker")).url), (await s.open("victim")).url) },
  { name: "of a stranger keeps the window of a site that it opens", without: opener, attack: async (s) => opens(await s.visit(s.lair.stranger), (await s.open("victim")).url) },
  {
    name: "sends a message to a site that it opens", without: opener,
    async attack(s) {
      const page = await s.visit((await s.open("attacker")).url);
      const popup = page.waitForEvent("popup");
      if (await opens(page, (await s.open("victim")).url) === "") return "";
      await page.evaluate(() => { (globalThis as unknown as { opened: Window }).opened.postMessage("it", "*"); });
      await (await popup).waitForFunction(() => document.title === "heard it");
      return "heard";
    },
  },
  {
    name: "sets a cookie for its siblings", without: { domain: "sites.example" },
    async attack(s) {
      const page = await s.visit((await s.open("attacker")).url);
      await page.evaluate(() => { document.cookie = `tossed=1; path=/; domain=${location.hostname.replace(/^\w+\./, "")}`; });
      return (await s.visit((await s.open("victim")).url)).evaluate(() => document.cookie);
    },
  },
  {
    name: "reads what another site stored", without: { domain: "one" },
    async attack(s) {
      await (await s.visit((await s.open("victim")).url)).evaluate(() => { localStorage.setItem("kept", "SECRET"); });
      return (await s.visit((await s.open("attacker")).url)).evaluate(() => localStorage.getItem("kept") ?? "");
    },
  },
  {
    name: "changes what another site cached", without: { domain: "one" },
    async attack(s) {
      await (await s.visit((await s.open("attacker")).url)).evaluate(async () => (await caches.open("c")).put("/x", new Response("poison")));
      return (await s.visit((await s.open("victim")).url)).evaluate(async () => (await (await caches.open("c")).match("/x"))?.text() ?? "");
    },
  },
  {
    name: "tells its URL by a link", without: drop("referrer-policy"),
    async attack(s) {
      const { page, frame } = await s.show(await s.open("attacker"));
      const there = page.waitForEvent("framenavigated", (f) => f.url().startsWith(s.lair.stranger));
      await frame.evaluate((to) => { location.href = to; }, s.lair.stranger);
      return (await there).evaluate(() => document.referrer);
    },
  },
  { name: "uses the camera", without: drop("permissions-policy"), attack: async (s) => (await s.visit((await s.open("attacker")).url)).evaluate(() => ((document as unknown as { featurePolicy: { allowsFeature(name: string): boolean } }).featurePolicy.allowsFeature("camera") ? "it may" : "")) },
];

const asked = (url: string): Promise<string> => new Promise((resolve) => {
  const socket = new WebSocket(`${url.replace("http", "ws")}/v1/session`);
  socket.onopen = () => { resolve("a session"); };
  socket.onerror = () => { resolve(""); };
});
const anonymous: Removal = { request: (headers) => { delete headers.origin; }, response: (headers) => { headers["access-control-allow-origin"] = "*"; } };

const intoServer: Row[] = [
  { name: "opens a session", without: anonymous, attack: async (s) => (await s.visit((await s.open("attacker")).url)).evaluate(asked, s.http) },
  { name: "of an opaque origin opens a session", without: anonymous, attack: async (s) => (await s.visit((await s.open("attacker", { form: "path" })).url)).evaluate(asked, s.http) },
  {
    name: "reads what /v1/content answers", without: anonymous,
    attack: async (s) => (await s.visit((await s.open("attacker")).url)).evaluate((http) => fetch(`${http}/v1/content?path=/secret.txt`, { credentials: "omit" }).then((r) => r.text(), () => ""), s.http),
  },
];

/** Shows a document of a site in the path form, and returns its origin unless it is opaque. */
const originOf = (name: string) => async (s: Stage): Promise<string> => {
  const origin = await (await s.visit(`${(await s.open("attacker", { form: "path", listing: true })).url}${name}`)).evaluate(() => globalThis.origin);
  return origin === "null" ? "" : origin;
};

const opaque: Row[] = [
  ...["index.html", "page.svg", "page.xhtml", "page.xml", "nope.html", "?"].map((name): Row => ({ name: `of the path form has the origin of all (${name})`, without: policy, attack: originOf(name) })),
  {
    name: "of the path form reads what another one stored", without: policy,
    async attack(s) {
      await (await s.visit((await s.open("victim", { form: "path" })).url)).evaluate(() => { try { localStorage.setItem("kept", "SECRET"); } catch { /* as it should be */ } });
      return (await s.visit((await s.open("attacker", { form: "path" })).url)).evaluate(() => { try { return localStorage.getItem("kept") ?? ""; } catch { return ""; } });
    },
  },
  {
    name: "of the path form opens a window that is not sandboxed", without: policy,
    async attack(s) {
      const page = await s.visit((await s.open("attacker", { form: "path" })).url);
      const popup = page.waitForEvent("popup");
      await page.evaluate(() => { open("about:blank"); });
      const origin = await (await popup).evaluate(() => globalThis.origin);
      return origin === "null" ? "" : origin;
    },
  },
  {
    name: "with no-network loads a script of another site of the path form", without: { response: (headers) => { for (const name of ["content-security-policy", "connection-allowlist"]) headers[name] = String(headers[name]).replace(/(localhost:\d+)\/\w{26}\//g, "$1/"); } },
    attack: async (s) => load(await s.visit((await s.open("attacker", { form: "path", policy: "no-network" })).url), "script", { src: `${(await s.open("victim", { form: "path" })).url}secret.js` }, "stolen"),
  },
  {
    name: "with no-network moves its base elsewhere", without: policy,
    async attack(s) {
      const base = await (await s.visit((await s.open("attacker", { policy: "no-network" })).url)).evaluate((href) => { document.head.append(Object.assign(document.createElement("base"), { href })); return document.baseURI; }, s.lair.stranger);
      return base.startsWith(s.lair.stranger) ? base : "";
    },
  },
];

/** The shell forgets the attribute sandbox. */
const unsandboxed: Removal = { response: (headers) => { headers["content-security-policy"] = String(headers["content-security-policy"]).replace(/; sandbox .*$/, ""); }, shell: `const set = Element.prototype.setAttribute; HTMLIFrameElement.prototype.setAttribute = function (name, value) { if (name !== "sandbox") set.call(this, name, value); };` };
/** The shell shows whatever it is told to. */
const credulous: Removal = { shell: `pages = { ...pages, mountPage(parent, site, path) { const frame = document.createElement("iframe"); frame.setAttribute("sandbox", "allow-scripts allow-same-origin"); frame.src = path === "/" ? site.url : path; parent.append(frame); return frame; } };` };

/** Runs a script in a frame that navigates the tab, and returns where the tab is unless it is still the shell's. */
async function navigates(s: Stage, page: Page, frame: Frame, how: (to: string) => string): Promise<string> {
  if (await frame.evaluate(how, `${s.lair.stranger}/top`) !== "") return "";
  await page.waitForURL(`${s.lair.stranger}/top`);
  return page.url();
}

const intoParent: Row[] = [
  {
    name: "in a frame navigates the tab", without: unsandboxed,
    async attack(s) {
      const { page, frame } = await s.show(await s.open("attacker"));
      return navigates(s, page, frame, (to) => { try { (top as Window).location.href = to; return ""; } catch (error) { return (error as Error).name; } });
    },
  },
  {
    name: "in a frame navigates the tab from the hub's frame", without: unsandboxed,
    async attack(s) {
      const { page, frame } = await s.show(await s.open("attacker", { hub: true }));
      return navigates(s, page, frame, (to) => { try { (parent.frames[0] as unknown as typeof globalThis).eval(`top.location.href = ${JSON.stringify(to)}`); return ""; } catch (error) { return (error as Error).name; } });
    },
  },
  {
    name: "in a frame of the shell's own origin takes its sandbox off", without: credulous,
    async attack(s) {
      const { page } = await s.show(await s.open("attacker"));
      const element = await page.evaluateHandle(() => { try { return pages.mountPage(document.body, { id: "", url: `${location.origin}/`, origin: location.origin, hubUrl: "" }, "/"); } catch { return null; } });
      const frame = await element.asElement()?.contentFrame();
      if (!frame) return "";
      await frame.waitForLoadState();
      return frame.evaluate(() => { frameElement?.removeAttribute("sandbox"); return parent.document.title + parent.location.href; });
    },
  },
  ...["javascript:document.title='x'", "data:text/html,x", "http://stranger.localhost/", "blob:null/1"].map((path): Row => ({
    name: `is shown by a path that is none (${path})`, without: credulous,
    async attack(s) {
      const site = await s.open("attacker");
      const { page } = await s.show(site);
      return page.evaluate(({ site, path }) => {
        try {
          const { src } = pages.mountPage(document.body, site, path);
          return src.startsWith(site.url) ? "" : src;
        } catch { return ""; }
      }, { site: { id: site.id, url: site.url, origin: site.origin, hubUrl: "" }, path });
    },
  })),
];

const registers = (page: Page): Promise<string> => page.evaluate(() => navigator.serviceWorker.register("/worker.js", { scope: "/" }).then(() => "a worker of its own", () => ""));
const workerless: Removal = { request: (headers) => { delete headers["service-worker"]; } };

const workers: Row[] = [
  { name: "registers a worker", without: workerless, attack: async (s) => registers(await s.visit((await s.open("attacker")).url)) },
  { name: "of a site with a hub registers a worker", without: workerless, attack: async (s) => registers(await s.visit((await s.open("attacker", { hub: true })).url)) },
  {
    name: "leaves data for whoever gets its name", without: drop("clear-site-data"),
    async attack(s) {
      const site = await s.open("attacker");
      await (await s.visit(site.url)).evaluate(() => { localStorage.setItem("left", "behind"); });
      await site.end();
      return (await s.visit(site.url)).evaluate(() => localStorage.getItem("left") ?? "");
    },
  },
];

const scripts: Row[] = (["inline.html", "eval.html", "data.html"] as const).map((name): Row => ({
  name: `with strict runs a script that is no file (${name})`, without: policy,
  attack: async (s) => (await s.visit(`${(await s.open("attacker", { policy: "strict" })).url}${name}`)).evaluate(() => ("ran" in globalThis ? "it runs" : "")),
}));

for (const row of [...between, ...intoServer, ...opaque, ...intoParent, ...workers, ...hubs, ...scripts]) {
  test(`a page ${row.name}`, async () => {
    const gains = async (without?: Removal): Promise<string> => {
      const stage = await lair.begin(without);
      try {
        return await row.attack(stage);
      } finally {
        await stage.stop();
      }
    };
    expect(await gains(), "with all protections").toBe("");
    expect(await gains(row.without), "without the protection").not.toBe("");
  });
}


test("a page of a site with a policy sends nothing out, by whichever channel", async () => {
  const stage = await lair.begin();
  try {
    const tries = [["host", "no-network"], ["path", "no-network"], ["host", "strict"], ["path", "strict"], ["host", "open"]] as const;
    const paths = (form: string, policy: string, name: string): string => `/${form}/${policy}/${encodeURIComponent(name)}`;
    const shown = await Promise.all(tries.map(async ([form, policy]) => ({
      form, policy, page: await stage.visit((await stage.open("attacker", { form, policy })).url), ports: await lair.listens((kind) => paths(form, policy, kind)),
    })));
    // The last page has no policy, and does all of it after the others.
    for (const part of [{ speculation }, channels, { navigation }]) {
      for (const { form, policy, page, ports } of shown) {
        await page.bringToFront();
        for (const [name, channel] of Object.entries(part)) {
          await page.evaluate(`try { Promise.resolve((${String(channel)})(${JSON.stringify(lair.stranger + paths(form, policy, name))}, ${JSON.stringify(ports)})).catch(() => {}) } catch {}; 0`);
        }
      }
      const heard = (form: string, policy: string): string[] => Object.keys(part).filter((name) => lair.heard.has(paths(form, policy, name)));
      await expect.poll(() => heard("host", "open")).toEqual(Object.keys(part));
      for (const { form, policy } of shown.slice(0, -1)) expect(heard(form, policy), `${form} form, ${policy}`).toEqual([]);
    }
  } finally {
    await stage.stop();
  }
});
