import type { View } from "../views";

// Orders 60 (processes), 70 (sites); the page activity is 100.
export const views: View[] = [
  { of: "context", name: "processes", title: "Processes", order: 60, load: () => import("./contextprocesses") },
  { of: "context", name: "sites", title: "Sites", order: 70, load: () => import("./sites") },
  { of: "page", name: "processes", title: "Processes", order: 90, load: () => import("./allprocesses") },
  { of: "page", name: "activity", title: "Activity", order: 100, load: () => import("./activity") },
];
