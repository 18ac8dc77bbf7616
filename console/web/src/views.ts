// The views of the console. A view is a chunk that the page loads when it is first shown. Add views in the list of their folder.
import type { ComponentType } from "react";
import { views as contexts } from "./contexts/views";
import type { Context } from "./gen/api";
import { views as review } from "./review/views";
import { views as run } from "./run/views";

export interface ContextViewProps {
  contextId: string;
  /** As it was fetched last; states and sizes follow within seconds. */
  context: Context;
  /** What follows the view's name in the route: a path, a process, … */
  rest: string[];
}

export interface PageViewProps {
  rest: string[];
}

interface Common {
  /** The part of the route: changes for #/contexts/ID/changes. */
  name: string;
  title: string;
  /** Views stand in this order. */
  order: number;
}

export type View =
  | (Common & { of: "context"; load: () => Promise<{ default: ComponentType<ContextViewProps> }> })
  | (Common & { of: "page"; load: () => Promise<{ default: ComponentType<PageViewProps> }> });

export const views: readonly View[] = [...contexts, ...review, ...run].sort((a, b) => a.order - b.order);
