// Opens a site that this page can show in a frame.
import { useState, type SubmitEvent } from "react";
import { call } from "../api";
import type { SiteForm, SiteOptions, SitePolicy } from "../gen/api";
import { Button, Dialog, ErrorNote } from "../ui";
import { rememberUrl } from "./siteurls";

/** Opens a site, keeps its URL, and gives its ID. */
export async function openSite(contextId: string, options: SiteOptions): Promise<string> {
  const { site, url } = await call("GatewayService/OpenSite", { contextId, options: { ...options, parents: [location.origin] } });
  const siteId = site?.siteId ?? "";
  rememberUrl(siteId, url ?? "");
  return siteId;
}

interface Props {
  contextId: string;
  onOpened: (siteId: string) => void;
  onClose: () => void;
}

const forms: readonly { form: SiteForm; text: string; help: string }[] = [
  { form: "SITE_FORM_HOST", text: "An app with an origin of its own", help: "It has storage, and URLs such as /app.js work." },
  { form: "SITE_FORM_PATH", text: "Sandboxed documents", help: "They have no storage, and only relative URLs work." },
];

const policies: readonly { policy: SitePolicy; text: string }[] = [
  { policy: "SITE_POLICY_NO_NETWORK", text: "only files of the site" },
  { policy: "SITE_POLICY_STRICT", text: "only files of the site, without inline scripts" },
  { policy: "SITE_POLICY_OPEN", text: "anything" },
];

export function OpenSiteDialog({ contextId, onOpened, onClose }: Props) {
  const [options, setOptions] = useState<SiteOptions>({ root: "", form: "SITE_FORM_HOST", policy: "SITE_POLICY_NO_NETWORK", listing: true, liveReload: true });
  const [error, setError] = useState<unknown>();
  const set = (change: SiteOptions): void => { setOptions({ ...options, ...change }); };
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    setError(undefined);
    openSite(contextId, options).then(onOpened, setError);
  };
  return (
    <Dialog title="Open a site" onClose={onClose} foot={<>
      <Button onClick={onClose}>Cancel</Button>
      <Button kind="primary" type="submit" form="open-site">Open</Button>
    </>}>
      <form id="open-site" className="stack" onSubmit={submit}>
        <div className="field">
          <label htmlFor="site-root">Folder</label>
          <input id="site-root" type="text" className="mono" data-autofocus autoComplete="off" spellCheck={false} placeholder="the root of the context" value={options.root} onChange={(event) => { set({ root: event.target.value }); }} />
        </div>
        <div className="field">
          <label htmlFor="site-form">Kind</label>
          <select id="site-form" value={options.form} onChange={(event) => { set({ form: event.target.value as SiteForm }); }}>
            {forms.map(({ form, text }) => <option key={form} value={form}>{text}</option>)}
          </select>
          <span className="help">{forms.find(({ form }) => form === options.form)?.help}</span>
        </div>
        <div className="field">
          <label htmlFor="site-policy">Pages may load</label>
          <select id="site-policy" value={options.policy} onChange={(event) => { set({ policy: event.target.value as SitePolicy }); }}>
            {policies.map(({ policy, text }) => <option key={policy} value={policy}>{text}</option>)}
          </select>
        </div>
        <Check text="Missing pages show the folder's index (single-page app)" on={options.spa} set={(spa) => { set({ spa }); }} />
        <Check text="List directories without an index" on={options.listing} set={(listing) => { set({ listing }); }} />
        <Check text="Reload pages after changes" on={options.liveReload} set={(liveReload) => { set({ liveReload }); }} />
      </form>
      {error !== undefined && <ErrorNote error={error} />}
    </Dialog>
  );
}

function Check({ text, on, set }: { text: string; on: boolean | undefined; set: (on: boolean) => void }) {
  return <label className="check"><input type="checkbox" checked={on ?? false} onChange={(event) => { set(event.target.checked); }} />{text}</label>;
}
