import { rowsOf } from "../row.js";
import { content } from "./content.js";
import { glob } from "./glob.js";
import { handle } from "./handle.js";
import { listing } from "./listing.js";
import { names } from "./names.js";
import { paths } from "./paths.js";
import { streams } from "./streams.js";
import { values } from "./values.js";
import { whole } from "./whole.js";

/** Every row. */
export const tables = [
  ...rowsOf("paths", paths),
  ...rowsOf("values", values),
  ...rowsOf("handle", handle),
  ...rowsOf("content", content),
  ...rowsOf("listing", listing),
  ...rowsOf("names", names),
  ...rowsOf("streams", streams),
  ...rowsOf("whole", whole),
  ...rowsOf("glob", glob),
];
