/*
 * Compared by the compiler, in `npm run check`: what this package declares can stand wherever Node's fs does, and each
 * function takes and gives what Node's does.
 */
import type * as nodefs from "node:fs";
import type * as nodepromises from "node:fs/promises";
import type { CtxFs } from "../src/index.js";

// eslint-disable-next-line @typescript-eslint/no-unnecessary-type-parameters -- only a comparison through T distinguishes types
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
type Extends<A, B> = A extends B ? true : false;
type Holds<T extends true> = T;

type OwnShape = "open" | "glob" | "constants" | "readFile" | "writeFile" | "appendFile";

/** All of these are true, or this file does not compile. */
export type Checks = [
  Holds<Extends<CtxFs, Omit<typeof nodepromises, "default">>>,
  Holds<Extends<CtxFs["promises"], typeof nodefs.promises>>,
  Holds<Same<Pick<CtxFs, Exclude<keyof typeof nodefs.promises, OwnShape>>, Pick<typeof nodefs.promises, Exclude<keyof typeof nodefs.promises, OwnShape>>>>,
  Holds<Extends<Awaited<ReturnType<CtxFs["open"]>>, nodepromises.FileHandle>>,
  Holds<Same<CtxFs["callbacks"]["readFile"], typeof nodefs.readFile>>,
];
