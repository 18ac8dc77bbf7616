import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { env } from "node:process";
import { WebSocket } from "undici";
import { onPath } from "./chromium.js";

/** The Firefox that FIREFOX names, or that is on PATH; undefined without one. */
export const firefox = env.FIREFOX ?? onPath("firefox-esr", "firefox");

interface Answer {
  readonly id?: number;
  readonly error?: string;
  readonly message?: string;
  readonly result?: unknown;
}

/** A page of a Firefox. */
export interface Tab {
  goto(url: string): Promise<void>;
  /** Evaluates an expression in the page, waits for it if it is a promise, and returns its value as JSON carries it. */
  evaluate(expression: string): Promise<unknown>;
}

/** A Firefox with a profile of its own, which takes commands as https://w3c.github.io/webdriver-bidi/ says. */
export class Firefox {
  readonly #waiting = new Map<number, (answer: Answer) => void>();
  #last = 0;

  private constructor(readonly stop: () => Promise<void>, private readonly socket: WebSocket) {
    socket.onmessage = ({ data }) => {
      const answer = JSON.parse(String(data)) as Answer;
      if (answer.id !== undefined) this.#waiting.get(answer.id)?.(answer);
    };
  }

  static async start(): Promise<Firefox> {
    if (firefox === undefined) throw new Error("no Firefox is on PATH: install it (Debian: apt-get install firefox-esr), or name it by FIREFOX");
    const profile = await mkdtemp(join(tmpdir(), "ctxfs-firefox-"));
    const program = spawn(firefox, ["--headless", "--no-remote", "--profile", profile, "--remote-debugging-port", "0", "about:blank"], {
      stdio: ["ignore", "ignore", "pipe"], env: { ...env, HOME: profile },
    });
    const ended = once(program, "exit");
    const stop = async (): Promise<void> => {
      program.kill("SIGKILL");
      await ended;
      await rm(profile, { recursive: true, force: true, maxRetries: 5 });
    };
    let said = "", address: string | undefined;
    for await (const part of program.stderr as AsyncIterable<Buffer>) {
      said += part.toString();
      address = /WebDriver BiDi listening on (ws:\S+)/.exec(said)?.[1];
      if (address !== undefined) break;
    }
    if (address === undefined) {
      await stop();
      throw new Error(`Firefox ended: ${said}`);
    }
    const socket = new WebSocket(`${address}/session`);
    await new Promise((done, failed) => { socket.onopen = done; socket.onerror = failed; });
    const browser = new Firefox(async () => { socket.close(); await stop(); }, socket);
    await browser.#call("session.new", { capabilities: {} });
    return browser;
  }

  async newPage(): Promise<Tab> {
    const { context } = await this.#call("browsingContext.create", { type: "tab" }) as { context: string };
    return {
      goto: async (url) => { await this.#call("browsingContext.navigate", { context, url, wait: "complete" }); },
      evaluate: async (expression) => {
        const answer = await this.#call("script.evaluate", { expression: `Promise.resolve(${expression}).then(JSON.stringify)`, target: { context }, awaitPromise: true });
        const { type, result, exceptionDetails } = answer as { type: string; result?: { value?: string }; exceptionDetails?: { text: string } };
        if (type !== "success") throw new Error(exceptionDetails?.text ?? "the expression failed");
        return result?.value === undefined ? undefined : JSON.parse(result.value) as unknown;
      },
    };
  }

  async #call(method: string, params: object): Promise<unknown> {
    const id = ++this.#last;
    const answered = new Promise<Answer>((done) => this.#waiting.set(id, done));
    this.socket.send(JSON.stringify({ id, method, params }));
    const { error, message, result } = await answered;
    this.#waiting.delete(id);
    if (error !== undefined) throw new Error(`${method}: ${error}: ${message ?? ""}`);
    return result;
  }
}
