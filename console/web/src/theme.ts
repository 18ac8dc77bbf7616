// Dark or light: as the system says, unless the person chose.
import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";

const key = "ctxfs-console-theme";
const dark = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();
let theme: Theme = read();

/** Gives the person's choice, and whether it is dark now. */
export function useTheme(): { theme: Theme; dark: boolean } {
  const chosen = useSyncExternalStore(subscribe, () => theme);
  const isDark = useSyncExternalStore(subscribe, () => (theme === "system" ? dark.matches : theme === "dark"));
  return { theme: chosen, dark: isDark };
}

/** Keeps a choice, and shows it. */
export function setTheme(next: Theme): void {
  theme = next;
  localStorage.setItem(key, next);
  applyTheme();
  for (const listener of listeners) listener();
}

/** Puts the choice on the document, where theme.css reads it. */
export function applyTheme(): void {
  document.documentElement.dataset.theme = theme;
}

function read(): Theme {
  const stored = localStorage.getItem(key);
  return stored === "light" || stored === "dark" ? stored : "system";
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  dark.addEventListener("change", listener);
  return () => {
    listeners.delete(listener);
    dark.removeEventListener("change", listener);
  };
}
