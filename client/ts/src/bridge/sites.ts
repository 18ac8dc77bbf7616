import { loadGateway } from "#platform";
import { requireKnown } from "../errors/options.js";
import { appScheme, isCapability } from "../pages/app.js";

/** Options of handleSites. */
export interface SitesOptions {
  /** The address of --gateway, such as "http://127.0.0.1:7422". */
  gateway: string;
  /** Origins or schemes of windows that may show sites in frames, besides the parents of each site: "app://panels". */
  parents?: readonly string[] | undefined;
}

/** The part of Electron's Protocol that is used: protocol of a session, which each partition has of its own. */
export interface SiteProtocol {
  handle(scheme: string, handler: (request: Request) => Promise<Response>): void;
}

/**
 * Gives the pages of a session sites without a port: ctxfs-app://CAPABILITY/path is what the gateway has there, ranges included. Call it when
 * the app is ready, for the session of each partition. Before that, and once, the app must have called
 * protocol.registerSchemesAsPrivileged([siteScheme]).
 */
export function handleSites(protocol: SiteProtocol, options: SitesOptions): void {
  requireKnown(options, ["gateway", "parents"]);
  const { parents = [] } = options;
  const address = new URL(options.gateway);
  if (address.protocol !== "http:") throw new TypeError(`gateway must be the address of --gateway, such as http://127.0.0.1:7422, and not ${options.gateway}`);
  for (const parent of parents) if (!/^[a-z][a-z0-9+.-]*:[^\s;,]*$/i.test(parent)) throw new TypeError(`parents must be origins or schemes, and ${parent} is none`);
  const load = loadGateway;
  if (!load) throw new TypeError("handleSites() is for Electron's main process");
  protocol.handle(appScheme, async (request) => {
    const { host: capability, pathname, search } = new URL(request.url);
    if (!isCapability(capability)) return refusal(404, "no such site, or it is closed");
    if (!["GET", "HEAD", "OPTIONS"].includes(request.method)) return refusal(405, "a site takes GET, HEAD, OPTIONS");
    const site = new URL(`http://${capability}.localhost:${address.port || "80"}`);
    const edit = (name: string, value: string): string => {
      const here = value.replaceAll(site.origin, `${appScheme}://${capability}`); // policies name the site by its URL
      return name === "content-security-policy" ? here.replace(/(^|; )frame-ancestors [^;]*/, (rule) => [rule, ...parents].join(" ")) : here;
    };
    const { askGateway } = await load();
    return askGateway({ address, host: site.host, path: pathname + search }, request, edit).catch((error: unknown) => {
      if (request.signal.aborted) throw error;
      return refusal(502, `the gateway at ${address.host} is not reached`);
    });
  });
}

function refusal(status: number, text: string): Response {
  return new Response(`${text}\n`, { status, headers: { "content-type": "text/plain; charset=utf-8", "cache-control": "no-store" } });
}
