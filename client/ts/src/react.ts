import { createContext, createElement, useContext, useEffect, useState, type ReactNode } from "react";
import { ambientFs } from "./runtime/ambient.js";
import type { CtxFs } from "./create.js";

const Current = createContext<CtxFs | null>(null);

/** Properties of CtxfsProvider. */
export interface CtxfsProviderProps {
  /** The panel's fs; the one that programs import unless told. */
  fs?: CtxFs | undefined;
  children?: ReactNode;
}

/** Gives the components in it a panel's fs. */
export function CtxfsProvider({ fs, children }: CtxfsProviderProps): ReactNode {
  return createElement(Current.Provider, { value: fs ?? ambientFs() }, children);
}

/** The fs of the CtxfsProvider around the component. Throws when there is none. */
export function useCtxfs(): CtxFs {
  const fs = useContext(Current);
  if (!fs) throw new Error("no CtxfsProvider is around this component: put one around the part of the page that uses ctxfs");
  return fs;
}

/**
 * The Electron session partition of the panel's context, "persist:" and its ID: null while it is not known. A failure to
 * connect is thrown, so that the error boundary around the component shows it.
 */
export function usePanelPartition(): string | null {
  const fs = useCtxfs();
  const [known, setKnown] = useState<{ fs: CtxFs; partition?: string; error?: unknown } | null>(null);
  useEffect(() => {
    let mounted = true;
    fs.info().then(
      ({ partition }) => { if (mounted) setKnown({ fs, partition }); },
      (error: unknown) => { if (mounted) setKnown({ fs, error }); },
    );
    return () => { mounted = false; };
  }, [fs]);
  if (known?.fs !== fs) return null; // it is another fs's
  if (known.error !== undefined) throw known.error;
  return known.partition ?? null;
}
