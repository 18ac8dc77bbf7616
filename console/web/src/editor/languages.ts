// The language of a file by its name. Each language is a chunk that the page loads when a file needs it.
import { LanguageSupport, StreamLanguage, type StreamParser } from "@codemirror/language";
import { Compartment, type Extension } from "@codemirror/state";
import { ViewPlugin } from "@codemirror/view";

type Load = () => Promise<LanguageSupport>;

const javascript = (options: { typescript?: boolean; jsx?: boolean }): Load => async () => (await import("@codemirror/lang-javascript")).javascript(options);
const css: Load = async () => (await import("@codemirror/lang-css")).css();
const html: Load = async () => (await import("@codemirror/lang-html")).html();
const json: Load = async () => (await import("@codemirror/lang-json")).json();
const markdown: Load = async () => (await import("@codemirror/lang-markdown")).markdown();
const yaml: Load = async () => (await import("@codemirror/lang-yaml")).yaml();
const go: Load = async () => (await import("@codemirror/lang-go")).go();
const python: Load = async () => (await import("@codemirror/lang-python")).python();
const rust: Load = async () => (await import("@codemirror/lang-rust")).rust();
const shell: Load = async () => legacy((await import("@codemirror/legacy-modes/mode/shell")).shell);
const toml: Load = async () => legacy((await import("@codemirror/legacy-modes/mode/toml")).toml);
const docker: Load = async () => legacy((await import("@codemirror/legacy-modes/mode/dockerfile")).dockerFile);
const c: Load = async () => legacy((await import("@codemirror/legacy-modes/mode/clike")).c);
const cpp: Load = async () => legacy((await import("@codemirror/legacy-modes/mode/clike")).cpp);
const java: Load = async () => legacy((await import("@codemirror/legacy-modes/mode/clike")).java);
const sql: Load = async () => legacy((await import("@codemirror/legacy-modes/mode/sql")).standardSQL);
const ruby: Load = async () => legacy((await import("@codemirror/legacy-modes/mode/ruby")).ruby);
const protobuf: Load = async () => legacy((await import("@codemirror/legacy-modes/mode/protobuf")).protobuf);

const byExtension = new Map<string, Load>(
  Object.entries({
    js: javascript({ jsx: true }), mjs: javascript({}), cjs: javascript({}), jsx: javascript({ jsx: true }),
    ts: javascript({ typescript: true }), mts: javascript({ typescript: true }), cts: javascript({ typescript: true }), tsx: javascript({ typescript: true, jsx: true }),
    css, html, htm: html, vue: html, svg: html, xml: html, json, jsonc: json, webmanifest: json, map: json, md: markdown, markdown, yaml, yml: yaml,
    go, py: python, rs: rust, sh: shell, bash: shell, zsh: shell, toml, c, h: c, cc: cpp, cpp, hpp: cpp, java, sql, rb: ruby, proto: protobuf,
  }),
);
const byName = new Map<string, Load>(
  Object.entries({ Dockerfile: docker, ".bashrc": shell, ".profile": shell, "Cargo.lock": toml, Gemfile: ruby, Rakefile: ruby }),
);

/** Gives the language of a path, or null when there is none for it or it cannot be loaded: the text is then shown plain. */
export async function languageOf(path: string): Promise<LanguageSupport | null> {
  const name = path.slice(path.lastIndexOf("/") + 1);
  const extension = name.slice(name.lastIndexOf(".") + 1).toLowerCase();
  const load = byName.get(name) ?? byExtension.get(extension);
  if (!load) return null;
  try {
    return await load();
  } catch {
    return null;
  }
}

/** Gives an editor the language of a path, as soon as that is loaded. */
export function syntaxOf(path: string): Extension {
  const language = new Compartment();
  const loading = ViewPlugin.define((view) => {
    let gone = false;
    void languageOf(path).then((support) => {
      if (support && !gone) view.dispatch({ effects: language.reconfigure(support) });
    });
    return { destroy: () => { gone = true; } };
  });
  return [language.of([]), loading];
}

function legacy(parser: StreamParser<unknown>): LanguageSupport {
  return new LanguageSupport(StreamLanguage.define(parser));
}
