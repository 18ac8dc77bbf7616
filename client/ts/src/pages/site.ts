import { requireKnown } from "../errors/options.js";
import { SiteForm, SitePolicy } from "../gen/ctxfs/v1/gateway_pb.js";
import type { FsPromises } from "../fs/promises.js";
import type { Caller } from "../session/operations.js";

/** Options of openSite. */
export interface SiteOptions {
  /** The directory that the site's "/" shows; the context's root unless told. */
  root?: string | undefined;
  /** "host" gives the site an origin of its own, for whole apps; "path" gives its documents an opaque origin, for fragments and for srcdocOf. "host" unless told. */
  form?: "host" | "path" | undefined;
  /** The file that stands for its directory; index.html unless told. */
  index?: string | undefined;
  /** Navigations to missing paths get the root's index file. */
  spa?: boolean | undefined;
  /** Directories without an index file are listed. */
  listing?: boolean | undefined;
  /** Names that begin with a dot are served. */
  hidden?: boolean | undefined;
  /** Documents get a base element with the site's root. */
  base?: boolean | undefined;
  /** Documents are loaded again after a change. */
  liveReload?: boolean | undefined;
  /** What pages may load: anything, only the site, or only the site and without inline scripts. */
  policy?: "open" | "no-network" | "strict" | undefined;
  /** Origins that may show the site in a frame, and use its hub; in a page its own origin unless told. */
  parents?: readonly string[] | undefined;
  /** The site has a hub, which openHub opens. */
  hub?: boolean | undefined;
  /** The name of a snapshot of the context: the site shows what it has, whatever becomes of the context, and ends when it is deleted. The context as it is unless told. */
  snapshot?: string | undefined;
  /** Pages may share memory (SharedArrayBuffer), and an isolated parent may show the site. Pages load from other origins only what permits it. */
  isolate?: boolean | undefined;
  /** The life of the site, in ms; 24 h unless told. */
  ttlMs?: number | undefined;
}

/** A site: a URL at which browsers read the context's files. The URL gives reading to every holder. */
export interface Site {
  /** Names the site in calls. It does not give access. */
  readonly id: string;
  /** Where it is, with a slash at the end. */
  readonly url: string;
  /** The URL's origin. */
  readonly origin: string;
  /** Where its hub is; "" without one. */
  readonly hubUrl: string;
}

/** A site that this client opened. */
export interface OpenSite extends Site {
  /** Lists its files that match a pattern of glob: paths from the site's root. It lists none of a site of a snapshot. */
  files(pattern: string): Promise<string[]>;
  /** Sets when it expires, counted from now, and returns when that is. */
  renew(ttlMs?: number): Promise<Date>;
  /** Closes it at once: its pages end, and browsers drop what they stored of it. */
  close(): Promise<void>;
}

const forms = { host: SiteForm.HOST, path: SiteForm.PATH };
const policies = { "open": SitePolicy.OPEN, "no-network": SitePolicy.NO_NETWORK, "strict": SitePolicy.STRICT };

/** Opens a site of the caller's context. */
export async function openSite(caller: Caller, fs: FsPromises, options: SiteOptions = {}): Promise<OpenSite> {
  requireKnown(options, ["root", "form", "index", "spa", "listing", "hidden", "base", "liveReload", "policy", "parents", "hub", "isolate", "snapshot", "ttlMs"]);
  const { root = "", form = "host", index = "", spa = false, listing = false, hidden = false, base = false, liveReload = false, policy = "open", hub = false, isolate = false, snapshot = "" } = options;
  const parents = options.parents ?? (typeof document === "undefined" ? [] : [location.origin]);
  const { site, url, origin, hubUrl } = await caller.call("openSite", {
    options: {
      $typeName: "ctxfs.v1.SiteOptions", root, form: one(forms, form, "form"), index, spa, listing, hidden, base, liveReload,
      policy: one(policies, policy, "policy"), parents: [...parents], hub, isolate, snapshot,
    },
    ttlMs: BigInt(options.ttlMs ?? 0),
  });
  const siteId = site?.siteId ?? "";
  return {
    id: siteId, url, origin, hubUrl,
    async files(pattern) {
      if (snapshot !== "") throw new TypeError("this lists the files of the context as it is: name those of a snapshot in a list");
      const cwd = `/${root.replace(/^\/+/, "")}`;
      const found: string[] = [];
      for await (const entry of fs.glob(pattern, { cwd, withFileTypes: true })) {
        if (!entry.isFile()) continue;
        const path = `${entry.parentPath}/${entry.name}`.replace(/\/+/g, "/");
        const below = path.slice(cwd === "/" ? 1 : cwd.replace(/\/+$/, "").length + 1);
        if (hidden || !below.split("/").some((name) => name.startsWith(".") && name !== ".well-known")) found.push(below);
      }
      return found.sort();
    },
    async renew(ttlMs = 0) {
      const renewed = await caller.call("renewSite", { siteId, ttlMs: BigInt(ttlMs) });
      return new Date(Number((renewed.site?.expiresNs ?? 0n) / 1_000_000n));
    },
    async close() { await caller.call("closeSite", { siteId }); },
  };
}

function one<T>(of: Readonly<Record<string, T>>, name: string, option: string): T {
  const found = of[name];
  if (found === undefined) throw new TypeError(`${option} must be ${Object.keys(of).join(" or ")}, and not ${name}`);
  return found;
}
