import type { View } from "../views";

export const views: View[] = [
  { of: "context", name: "changes", title: "Changes", order: 20, load: () => import("./changes") },
  { of: "context", name: "conflicts", title: "Conflicts", order: 30, load: () => import("./conflicts") },
  { of: "context", name: "journal", title: "Journal", order: 40, load: () => import("./journal") },
  { of: "context", name: "staged", title: "Staged", order: 50, load: () => import("./staged") },
];
