// What outputs and terminals share: the screen that follows its place and the theme, the mode for screen readers, and the state of the stream.
import type { ITerminalOptions } from "@xterm/xterm";
import { useEffect, useRef, useSyncExternalStore, type DependencyList, type Ref, type RefObject } from "react";
import { useTheme } from "../theme";
import { Button } from "../ui";
import { openScreen, type Screen } from "./screen";

/** Whether more output may come. */
export type Link = "live" | "lost" | "ended";

export function LinkState({ link }: { link: Link }) {
  const words = { live: "live", lost: "connection lost, trying again", ended: "complete" }[link];
  return <span className="dim" role="status">{words}</span>;
}

/** Opens a screen in the element that has the ref, and hands it to `run`, anew when an input changes. The signal ends with the screen. */
export function useScreen(options: ITerminalOptions, run: (screen: Screen, signal: AbortSignal) => void, deps: DependencyList): RefObject<HTMLDivElement | null> {
  const place = useRef<HTMLDivElement>(null);
  const screen = useRef<Screen>(null);
  const latest = useRef({ options, run });
  const { dark } = useTheme();
  useEffect(() => { latest.current = { options, run }; });
  useEffect(() => {
    if (!place.current) return undefined;
    const opened = openScreen(place.current, latest.current.options);
    screen.current = opened;
    const abort = new AbortController();
    opened.fit();
    latest.current.run(opened, abort.signal);
    const observer = new ResizeObserver(() => { opened.fit(); });
    observer.observe(place.current);
    return () => {
      abort.abort();
      observer.disconnect();
      opened.dispose();
      screen.current = null;
    };
    // The caller's inputs decide when another screen is opened.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, deps);
  useEffect(() => { screen.current?.recolour(); }, [dark]);
  const { screenReaderMode } = options;
  useEffect(() => {
    if (screen.current) screen.current.terminal.options.screenReaderMode = screenReaderMode ?? false;
  }, [screenReaderMode]);
  return place;
}

/** Switches the mode in which screen readers can read a screen. The browser keeps the choice. */
export function ReaderMode({ ref }: { ref?: Ref<HTMLButtonElement> }) {
  const [on, set] = useReaderMode();
  return <Button small ref={ref} aria-pressed={on} onClick={() => { set(!on); }}>Screen reader mode</Button>;
}

const key = "ctxfs-console-screen-reader";
const listeners = new Set<() => void>();

export function useReaderMode(): [on: boolean, set: (on: boolean) => void] {
  return [useSyncExternalStore(subscribe, () => localStorage.getItem(key) === "on"), setReaderMode];
}

function setReaderMode(on: boolean): void {
  localStorage.setItem(key, on ? "on" : "off");
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
