import { fsOver } from "../../src/index.js";
import { MemoryCaller } from "../../src/memory/caller.js";
import { compareWithNode } from "./offline.js";

compareWithNode("the file system in memory", 1, () => Promise.resolve(fsOver(new MemoryCaller(["/row"]))));
