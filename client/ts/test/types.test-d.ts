/*
 * Compared by the compiler, in `npm run check`: the object stands in for Node's fs/promises, and what it gives stands in
 * for what Node gives, by @types/node 20 and, where a program brings it, 22. A comment stands beside each difference.
 */
/* eslint @typescript-eslint/no-unsafe-class-instance-assignment: "off" -- that other classes serve as well is what is checked */
import type * as nodefs from "node:fs";
import type * as nodepromises from "node:fs/promises";
import { type BigIntStats, type CtxFs, type Dirent, type FileHandle, type StatFs, type Stats, constants } from "../src/index.js";

declare const fs: CtxFs;

/** The whole module: a program's variable of its type takes the object. */
export const asModule: typeof import("node:fs/promises") = fs;
/** The form that plug-ins take: { promises }. */
export const asPlugin: { promises: typeof nodefs.promises } = fs;

/** Each function by its own type, so that a missing overload is named by the compiler. */
export const functions: { [Name in keyof typeof nodepromises]: (typeof nodepromises)[Name] } = fs;

declare const stats: Stats;
declare const bigStats: BigIntStats;
declare const statFs: StatFs;
declare const dirent: Dirent;
declare const rawDirent: Dirent<Buffer>;
declare const handle: FileHandle;

export const asStats: nodefs.Stats = stats;
export const asBigIntStats: Omit<nodefs.BigIntStats, never> = bigStats;
export const asStatFs: nodefs.StatsFs = statFs;
export const asDirent: nodefs.Dirent = dirent;
// @types/node 20 types Dirent by no name: one with a Buffer is compared without its name.
export const asRawDirent: Omit<nodefs.Dirent, "name"> = rawDirent;
export const asConstants: Pick<typeof nodefs.constants, keyof typeof constants & keyof typeof nodefs.constants> = constants;

/** What comes from EventEmitter is only in Node what Node has; browsers get its core. */
type Emitter = Exclude<keyof import("node:events").EventEmitter, "on" | "once" | "off" | "addListener" | "removeListener" | "emit">;

/**
 * The class is declared by what it checks at run time, which is unknown, and open() gives it as Node's FileHandle.
 * Its methods are compared by name: none of Node's is missing.
 */
export const methods: Record<Exclude<keyof nodepromises.FileHandle, Emitter>, unknown> = handle;

/** What open() gives is Node's type itself. */
export const opened: Promise<nodepromises.FileHandle> = fs.open("/a");
export const listed: Promise<string[]> = fs.readdir("/");
export const typed: Promise<nodefs.Dirent[]> = fs.readdir("/", { withFileTypes: true });
export const text: Promise<string> = fs.readFile("/a", "utf8");
export const bytes: Promise<Buffer> = fs.readFile("/a");
export const big: Promise<nodefs.BigIntStats> = fs.stat("/a", { bigint: true });
