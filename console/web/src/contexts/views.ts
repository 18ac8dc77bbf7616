import type { View } from "../views";

export const views: View[] = [
  { of: "page", name: "contexts", title: "Contexts", order: 0, load: () => import("./list") },
  { of: "context", name: "files", title: "Files", order: 10, load: () => import("../files/files") },
];
