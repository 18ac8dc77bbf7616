// Writes src/gen/api.ts, the types of the JSON API, from docs/reference/openapi.json. With --check it only compares.
import { readFileSync, writeFileSync } from "node:fs";
import { argv, exit } from "node:process";

const document = JSON.parse(readFileSync(new URL("../../../docs/reference/openapi.json", import.meta.url), "utf8"));
const target = new URL("../src/gen/api.ts", import.meta.url);

const text = [
  "// Types of ctxfs's JSON API. Generated from docs/reference/openapi.json by scripts/types.mjs; do not edit.\n",
  ...Object.entries(document.components.schemas).map(([name, schema]) => declaration(name, schema)),
  methods(),
].join("\n");

if (!argv.includes("--check")) {
  writeFileSync(target, text);
} else if (readFileSync(target, "utf8") !== text) {
  console.error("console/web/src/gen/api.ts is not what docs/reference/openapi.json says; run npm --prefix console/web run generate");
  exit(1);
}

function declaration(name, schema) {
  if (schema.enum) return `${comment(schema, "")}export type ${name} =${schema.enum.map((value) => `\n  | "${value}"`).join("")};\n`;
  const fields = Object.entries(schema.properties ?? {}).map(([field, property]) => {
    const optional = schema.required?.includes(field) ? "" : "?";
    return `${comment(property, "  ")}  ${JSON.stringify(field).replace(/^"(\w+)"$/, "$1")}${optional}: ${type(property)};\n`;
  });
  if (schema.additionalProperties) fields.push("  [name: string]: unknown;\n");
  return fields.length === 0 ? `${comment(schema, "")}export type ${name} = Record<string, never>;\n` : `${comment(schema, "")}export interface ${name} {\n${fields.join("")}}\n`;
}

function type(schema) {
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  // A double may be "NaN" or "Infinity" in JSON; no field of ctxfs is.
  switch (Array.isArray(schema.type) ? schema.type[0] : schema.type) {
    case "array": {
      const item = type(schema.items);
      return `${item}[]`;
    }
    case "object":
      return schema.additionalProperties ? `Record<string, ${type(schema.additionalProperties)}>` : "Record<string, unknown>";
    case "integer":
    case "number":
      return "number";
    case "boolean":
      return "boolean";
    case "string":
      return "string";
    default:
      return "unknown";
  }
}

function comment(schema, indent) {
  if (!schema.description) return "";
  const lines = schema.description.replaceAll("*/", "*\u200b/").split("\n");
  if (lines.length === 1) return `${indent}/** ${lines[0]} */\n`;
  return `${indent}/**\n${lines.map((line) => `${indent} * ${line}`.trimEnd()).join("\n")}\n${indent} */\n`;
}

function methods() {
  const calls = [];
  const streams = [];
  for (const [path, { post }] of Object.entries(document.paths)) {
    const [, , service, method] = path.split("/");
    const content = post?.responses?.["200"]?.content;
    if (!content || !method) continue;
    const request = name(post.requestBody?.content["application/json"].schema);
    const unary = content["application/json"]?.schema;
    const stream = content["application/x-ndjson"]?.schema.anyOf[0];
    (unary ? calls : streams).push(`  "${service}/${method}": { request: ${request}; response: ${name(unary ?? stream)} };\n`);
  }
  return `/** The methods that answer once. */\nexport interface Calls {\n${calls.join("")}}\n\n/** The methods that answer with a stream. */\nexport interface Streams {\n${streams.join("")}}\n`;
}

function name(schema) {
  return schema?.$ref ? schema.$ref.split("/").at(-1) : "Record<string, never>";
}
