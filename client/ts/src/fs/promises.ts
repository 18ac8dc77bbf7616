import type * as nodefs from "node:fs/promises";
import { attributeFunctions } from "./attributes.js";
import { constants } from "./constants.js";
import { contentFunctions } from "./content.js";
import type { Core } from "./core.js";
import { listingFunctions } from "./listing.js";

/** Every function of Node's fs/promises, over a context folder. */
export type FsPromises = typeof nodefs;

/** Makes the functions over what calls the server. They need no this, so that they may be taken apart. */
export function promisesOf(core: Core): FsPromises {
  const functions = {
    ...contentFunctions(core),
    ...attributeFunctions(core),
    ...listingFunctions(core),
    constants,
  };
  // The functions take unknown and check it, as Node's do; what they promise is Node's declarations.
  return functions as unknown as FsPromises;
}
