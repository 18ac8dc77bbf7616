// The shell: who is signed in, the head of the page, and the view that the route names.
import { Component, lazy, Suspense, useEffect, useRef, type ComponentType, type ReactNode } from "react";
import { ContextPage } from "./contexts/page";
import { href, useRoute } from "./router";
import { signOut, useSession } from "./session";
import { SignedOutPage } from "./signedout";
import { setTheme, useTheme, type Theme } from "./theme";
import { Button, Empty, ErrorNote, HotkeyHelp, listenForKeys, showKeys, Spinner, Toasts, useHotkeys } from "./ui";
import { views, type PageViewProps } from "./views";

export function App() {
  const { session, reason } = useSession();
  useEffect(() => listenForKeys(), []);
  return (
    <>
      {session ? <SignedIn version={session.version} /> : <SignedOutPage reason={reason} />}
      <HotkeyHelp />
      <Toasts />
    </>
  );
}

// What a context shows first: its changes.
const first = views.some((view) => view.name === "changes") ? "changes" : "files";
const pages = views.filter((view) => view.of === "page");
const components = new Map<string, ComponentType<PageViewProps>>(pages.map((view) => [view.name, lazy(view.load)]));

function SignedIn({ version }: { version: string }) {
  const route = useRoute();
  const [page = "contexts", id, view, ...rest] = route;
  const main = useRef<HTMLElement>(null);
  const shown = route.slice(0, 3).join("/");
  // A link that was followed may be gone with its view: the focus then goes to the new one, not to the page's top.
  useEffect(() => {
    if (document.activeElement === document.body) main.current?.focus({ preventScroll: true });
  }, [shown]);
  useHotkeys("Everywhere", [
    { key: "?", label: "Show these keys", run: showKeys },
    ...pages.map((one, i) => ({ key: `Alt+${String(i + 1)}`, label: `Go to ${one.title}`, run: () => { location.hash = href(one.name); } })),
  ]);
  return (
    <>
      <a className="skip" href="#main" onClick={(event) => { event.preventDefault(); main.current?.focus(); }}>Skip to content</a>
      <header className="top">
        <a className="brand" href={href("contexts")}><Logo /><span className="name">ctxfs</span></a>
        <nav aria-label="Pages">
          {pages.map((one) => <a key={one.name} href={href(one.name)} aria-current={one.name === page ? "page" : undefined}>{one.title}</a>)}
        </nav>
        <span className="grow" />
        {version && <span className="dim only-wide" title="Version of the server">{version}</span>}
        <ThemeSwitch />
        <Button kind="quiet" icon aria-label="Keys" title="Keys (?)" onClick={showKeys}>?</Button>
        <Button kind="quiet" aria-label="Sign out" title="Sign out" onClick={() => void signOut()}><span className="only-wide">Sign out</span><LeaveSign /></Button>
      </header>
      <main id="main" ref={main} tabIndex={-1}>
        <Boundary key={shown}>
          <Suspense fallback={<div className="page"><Spinner /></div>}>
            {page === "contexts" && id !== undefined ? <ContextPage key={id} id={id} view={view ?? first} rest={rest} /> : <Page name={page} rest={route.slice(1)} />}
          </Suspense>
        </Boundary>
      </main>
    </>
  );
}

function Page({ name, rest }: { name: string; rest: string[] }) {
  const View = components.get(name);
  if (!View) return <Empty title="There is no such page"><a href={href("contexts")}>All contexts</a></Empty>;
  return <View rest={rest} />;
}

function ThemeSwitch() {
  const { theme } = useTheme();
  const next: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };
  const names: Record<Theme, string> = { system: "as the system", light: "light", dark: "dark" };
  const signs: Record<Theme, string> = { system: "◐", light: "☀", dark: "☾" };
  return (
    <Button kind="quiet" icon aria-label={`Colours: ${names[theme]}. Change to ${names[next[theme]]}`} title={`Colours: ${names[theme]}`} onClick={() => setTheme(next[theme])}>
      <span aria-hidden="true">{signs[theme]}</span>
    </Button>
  );
}

function LeaveSign() {
  return (
    <svg className="only-narrow" width="18" height="18" viewBox="0 0 16 16" aria-hidden="true">
      <path d="M10 2.5h3.5v11H10M2.5 8H10M7 5l3 3-3 3" fill="none" stroke="currentColor" strokeWidth="1.5" strokeLinecap="round" strokeLinejoin="round" />
    </svg>
  );
}

function Logo() {
  return (
    <svg width="22" height="22" viewBox="0 0 32 32" role="img" aria-label="ctxfs">
      <rect x="2" y="2" width="28" height="28" rx="7" fill="var(--accent-strong)" />
      <path d="M10 10h9a4 4 0 0 1 4 4M10 16h7M10 22h12" fill="none" stroke="#fff" strokeWidth="3" strokeLinecap="round" />
    </svg>
  );
}

/** Shows an error of a view in its place, so that the rest of the page still works. */
class Boundary extends Component<{ children: ReactNode }, { error: unknown }> {
  override state = { error: null as unknown };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override render() {
    if (this.state.error === null) return this.props.children;
    return (
      <div className="page">
        <ErrorNote error={this.state.error} retry={() => this.setState({ error: null })} />
      </div>
    );
  }
}
