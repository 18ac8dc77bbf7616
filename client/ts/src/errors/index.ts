export * from "./connection.js";
export * from "./node.js";
export * from "./system.js";
