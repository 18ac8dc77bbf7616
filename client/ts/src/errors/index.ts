export * from "./connection.js";
export * from "./fs.js";
export * from "./node.js";
export * from "./system.js";
