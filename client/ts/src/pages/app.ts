import type { Site } from "./site.js";

/** The scheme of sites in Electron. */
export const appScheme = "ctxfs-app";

/** What Electron's protocol.registerSchemesAsPrivileged takes, once and before the app is ready. */
export const siteScheme = {
  scheme: appScheme,
  privileges: { standard: true, secure: true, supportFetchAPI: true, stream: true, corsEnabled: true, allowServiceWorkers: true },
} as const;

/** A capability, as a host name has it. */
export const isCapability = (text: string): boolean => /^[a-z2-7]{26}$/.test(text);

/** Returns a site of the host form with the addresses that it has in Electron: ctxfs-app://CAPABILITY/. */
export function appSite<S extends Site>(site: S): S {
  const [capability = ""] = new URL(site.url).hostname.split(".");
  if (site.url !== `${site.origin}/` || !isCapability(capability)) throw new TypeError('the site has the path form: open it with form "host"');
  const origin = `${appScheme}://${capability}`;
  return { ...site, origin, url: `${origin}/`, hubUrl: site.hubUrl && `${origin}${new URL(site.hubUrl).pathname}` };
}
