import { fsOver } from "../../src/index.js";
import { MemoryCaller } from "../../src/memory/caller.js";
import { compareWithNode } from "./offline.js";

// One row in so many is done, unless CTXFS_ALL_ROWS is set: most rows are about arguments, which other tests cover in full.
compareWithNode("the file system in memory", process.env.CTXFS_ALL_ROWS ? 1 : 4, () => Promise.resolve(fsOver(new MemoryCaller(["/row"]))));
