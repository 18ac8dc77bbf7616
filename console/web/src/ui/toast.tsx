// Messages that come and go, and words for screen readers alone. Both work from anywhere: call toast() or announce().
import { useSyncExternalStore } from "react";
import { Button } from "./basics";

interface Message {
  id: number;
  tone: "good" | "bad" | "info";
  text: string;
}

interface State {
  messages: Message[];
  spoken: string;
}

const listeners = new Set<() => void>();
let state: State = { messages: [], spoken: "" };
let next = 1;

/** Shows a message for some seconds; one of a failure stays until it is closed. */
export function toast(text: string, tone: Message["tone"] = "info"): void {
  const id = next++;
  set({ ...state, messages: [...state.messages.slice(-3), { id, tone, text }] });
  if (tone !== "bad") setTimeout(() => dismiss(id), 6000);
}

/** Says a text to screen readers, and shows nothing. */
export function announce(text: string): void {
  // The same words twice are only said again if the text differs.
  set({ ...state, spoken: state.spoken === text ? `${text}\u00a0` : text });
}

export function Toasts() {
  const { messages, spoken } = useSyncExternalStore(subscribe, () => state);
  return (
    <>
      <div className="visually-hidden" aria-live="polite" aria-atomic="true" data-testid="announcer">{spoken}</div>
      <div className="toasts" role="status">
        {messages.map((message) => (
          <div key={message.id} className={`toast ${message.tone}`}>
            <span className="grow">{message.text}</span>
            <Button kind="quiet" icon small aria-label="Close this message" onClick={() => dismiss(message.id)}>✕</Button>
          </div>
        ))}
      </div>
    </>
  );
}

function dismiss(id: number): void {
  set({ ...state, messages: state.messages.filter((message) => message.id !== id) });
}

function set(to: State): void {
  state = to;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
