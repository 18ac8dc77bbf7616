import { rowsOf } from "../row.js";
import { paths } from "./paths.js";

/** Every row. */
export const tables = [...rowsOf("paths", paths)];
