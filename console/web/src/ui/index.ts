export * from "./basics";
export * from "./dialog";
export * from "./format";
export * from "./hooks";
export * from "./hotkeys";
export * from "./split";
export * from "./toast";
export * from "./virtual";
