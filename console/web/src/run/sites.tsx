// The sites of a context: a list, a form that opens one, and the site in a frame that cannot reach this page.
import { useState } from "react";
import { call } from "../api";
import type { Site, SiteOptions } from "../gen/api";
import { go } from "../router";
import { useSession } from "../session";
import { Badge, Button, Confirm, Empty, ErrorNote, Spinner, Table, time, toast, useAsync, useTitle, type Column } from "../ui";
import type { ContextViewProps } from "../views";
import { OpenSiteDialog, openSite } from "./opensite";
import { useSiteUrls } from "./siteurls";
import "./run.css";

export default function Sites({ contextId, rest }: ContextViewProps) {
  useTitle(`Sites of ${contextId}`);
  const { session: signedIn } = useSession();
  const { data: sites, error, reload } = useAsync(async (signal) => (await call("GatewayService/ListSites", { contextId }, { signal })).sites ?? [], [contextId], { every: 5000 });
  const shown = sites?.find(({ siteId }) => siteId === rest[0]);
  if (signedIn?.gateway === "") return <NoGateway />;
  return (
    <div className="page">
      <SitesBar contextId={contextId} reload={reload} />
      {error !== undefined && <ErrorNote error={error} retry={reload} />}
      {!sites && error === undefined && <Spinner label="Reading the sites" />}
      {sites?.length === 0 && <Empty title="No open sites"><p>A site shows files of this context to a browser, as they are at the moment.</p></Empty>}
      {sites && sites.length > 0 && <SiteTable sites={sites} contextId={contextId} reload={reload} shownId={shown?.siteId} />}
      {shown && <SiteFrame key={shown.siteId} site={shown} />}
    </div>
  );
}

function NoGateway() {
  return (
    <Empty title="This server shows no sites">
      <p>Start it with an address for them: <code>ctxfs serve --gateway 127.0.0.1:7422</code></p>
    </Empty>
  );
}

function SitesBar({ contextId, reload }: { contextId: string; reload: () => void }) {
  const [asking, setAsking] = useState(false);
  const opened = (siteId: string): void => {
    setAsking(false);
    reload();
    go(["contexts", contextId, "sites", siteId]);
  };
  return (
    <>
      <div className="bar">
        <h2 className="grow">Sites</h2>
        <Button kind="primary" onClick={() => { setAsking(true); }}>Open a site…</Button>
      </div>
      {asking && <OpenSiteDialog contextId={contextId} onOpened={opened} onClose={() => { setAsking(false); }} />}
    </>
  );
}

interface TableProps {
  sites: readonly Site[];
  contextId: string;
  shownId: string | undefined;
  reload: () => void;
}

function SiteTable({ sites, contextId, shownId, reload }: TableProps) {
  const urls = useSiteUrls();
  const [closing, setClosing] = useState<Site>();
  const show = (site: Site): void => {
    const { siteId = "" } = site;
    if (urls.has(siteId)) return go(["contexts", contextId, "sites", siteId]);
    openSite(contextId, site.options ?? {}).then((id) => { reload(); go(["contexts", contextId, "sites", id]); }, (error: unknown) => { toast(String(error), "bad"); });
  };
  const close = async (): Promise<void> => {
    await call("GatewayService/CloseSite", { siteId: closing?.siteId });
    toast("The site is closed", "good");
    if (closing?.siteId === shownId) go(["contexts", contextId, "sites"]);
    reload();
  };
  const columns: Column<Site>[] = [
    { id: "root", title: "Folder", cell: ({ options }) => <span className="mono">/{options?.root?.replace(/^\/+/, "")}</span> },
    { id: "kind", title: "Kind", cell: ({ options = {} }) => <Kinds options={options} /> },
    { id: "by", title: "Opened by", cell: ({ panelId }) => panelId ?? "a host" },
    { id: "expires", title: "Expires", className: "nowrap", cell: ({ expiresNs }) => time(expiresNs) },
    {
      id: "actions", title: "Actions", className: "nowrap", cell: (site) => (
        <span className="row">
          <Button small onClick={() => { show(site); }}>{urls.has(site.siteId ?? "") ? "Show" : "Open a copy"}</Button>
          <Button small onClick={() => { setClosing(site); }}>Close…</Button>
        </span>
      ),
    },
  ];
  return (
    <>
      <Table caption="Open sites" columns={columns} rows={sites} keyOf={({ siteId }) => siteId ?? ""} rowProps={({ siteId }) => ({ className: siteId === shownId ? "current" : undefined })} />
      {closing && (
        <Confirm title="Close the site" action="Close the site" danger onConfirm={close} onClose={() => { setClosing(undefined); }}>
          <p>Its URL stops working at once, for everybody who has it.</p>
        </Confirm>
      )}
    </>
  );
}

const policies: Readonly<Record<string, string>> = { SITE_POLICY_NO_NETWORK: "no network", SITE_POLICY_STRICT: "strict" };

function Kinds({ options }: { options: SiteOptions }) {
  const kinds = [
    options.form === "SITE_FORM_PATH" ? "sandboxed" : "own origin", policies[options.policy ?? ""] ?? "any network",
    options.spa ? "single-page app" : "", options.liveReload ? "live reload" : "", options.snapshot ? `snapshot ${options.snapshot}` : "",
  ];
  return <span className="row wrap">{kinds.filter((kind) => kind !== "").map((kind) => <Badge key={kind}>{kind}</Badge>)}</span>;
}

const rights = "allow-scripts allow-forms allow-popups allow-modals allow-downloads";

/** Shows a site. The sandbox keeps it from this page; in the host form it has an origin of its own, and so storage. */
function SiteFrame({ site }: { site: Site }) {
  const [round, setRound] = useState(0);
  const url = useSiteUrls().get(site.siteId ?? "");
  if (url === undefined) return <p className="dim">The server shows the URL of a site once, when it opens. This page did not open this one: open a copy.</p>;
  if (new URL(url).origin === location.origin) return <ErrorNote error={new Error("The site has the origin of this page, so that a frame would not keep them apart")} />;
  return (
    <section className="site" aria-label="Site">
      <div className="bar">
        <span className="mono grow truncate">{url}</span>
        <Button small onClick={() => { setRound(round + 1); }}>Reload</Button>
        <a className="button small" href={url} target="_blank" rel="noreferrer noopener">Open in a tab</a>
      </div>
      <iframe key={round} title={`Site of ${site.options?.root ?? "the context"}`} src={url} allow="local-network-access; loopback-network" referrerPolicy="no-referrer"
        sandbox={site.options?.form === "SITE_FORM_PATH" ? rights : `${rights} allow-same-origin`} />
    </section>
  );
}
