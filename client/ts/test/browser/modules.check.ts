// Checked by tsc alone: what takes the place of Node's modules has their types, as far as it has their functions.
import type * as nodefs from "node:fs";
import type * as nodepromises from "node:fs/promises";
import * as fs from "../../src/fs.js";
import * as promises from "../../src/fs-promises.js";

type Refused = `${string}Sync`;
type Shared<Ours, Theirs> = Pick<Theirs, Exclude<keyof Ours & keyof Theirs, Refused | "default" | "Dir" | "Stats" | "BigIntStats" | "Dirent" | "StatFs">>;

export const asNode: Shared<typeof fs, typeof nodefs> = fs;
export const asNodePromises: Shared<typeof promises, typeof nodepromises> = promises;

// A default import is the same object.
export const whole: Shared<typeof fs, typeof nodefs> = fs.default;
export const wholePromises: Shared<typeof promises, typeof nodepromises> = promises.default;

// Without a callback they give promises.
export const text: Promise<string> = fs.default.readFile("/a", "utf8");
