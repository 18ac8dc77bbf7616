// The JSON API of ctxfs: `POST /v1/SERVICE/METHOD` with the tab's token, one answer or a stream of lines.
import type { Calls, Status, Streams } from "./gen/api";
import { session, signedOut } from "./session";

export interface CallOptions {
  signal?: AbortSignal;
  /** Names the panel that the call acts for. */
  panel?: string;
}

/** What a call failed with, in the server's words. */
export class ApiError extends Error {
  override readonly name = "ApiError";

  constructor(
    message: string,
    /** The HTTP status; 0 when the server did not answer. */
    readonly status: number,
    /** The errno's name, such as ENOENT; empty when there is none. */
    readonly reason: string,
    /** What to do about it; empty when the server does not say. */
    readonly hint: string,
    /** The further fields of the server's ErrorInfo: path, dest, detail, …. */
    readonly metadata: Readonly<Record<string, string>> = {},
    /** The server's other details, such as the conflicts of an Apply, with their type in @type. */
    readonly details: readonly Readonly<Record<string, unknown>>[] = [],
  ) {
    super(message);
  }
}

/** Calls a method that answers once. Throws an ApiError, or the signal's reason. */
export async function call<M extends keyof Calls>(method: M, request: Calls[M]["request"], options: CallOptions = {}): Promise<Calls[M]["response"]> {
  const response = await send(method, request, options);
  return (await response.json()) as Calls[M]["response"];
}

/** Calls a method that answers with a stream, and gives each message as it comes. Leaving the loop ends the call. */
export async function* stream<M extends keyof Streams>(method: M, request: Streams[M]["request"], options: CallOptions = {}): AsyncGenerator<Streams[M]["response"], void, undefined> {
  const response = await send(method, request, options);
  for await (const line of lines(response)) {
    const message = JSON.parse(line) as Streams[M]["response"] & { error?: Status };
    if (isFailure(message)) throw errorOf(message.error, response.status);
    yield message;
  }
}

/** Reads a stream to its end, and gives all messages. */
export async function collect<M extends keyof Streams>(method: M, request: Streams[M]["request"], options: CallOptions = {}): Promise<Streams[M]["response"][]> {
  const messages: Streams[M]["response"][] = [];
  for await (const message of stream(method, request, options)) messages.push(message);
  return messages;
}

/** Gives the server's description of an error, or the error's own. */
export function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError(error instanceof Error ? error.message : String(error), 0, "", "");
}

/** Says whether a call ended because its caller gave it up. */
export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

async function send(method: string, request: object, { signal, panel }: CallOptions): Promise<Response> {
  const current = session();
  if (!current) throw new ApiError("You are not signed in", 401, "EACCES", "run ctxfs console");
  const headers: Record<string, string> = { "Content-Type": "application/json", Authorization: `Bearer ${current.token}` };
  if (panel) headers["Ctxfs-Panel"] = panel;
  const response = await post(`/v1/${method}`, headers, request, signal);
  if (response.ok) return response;
  const error = await failure(response);
  // Another call may have signed in anew meanwhile.
  if (response.status === 401 && session()?.token === current.token) signedOut("ended");
  throw error;
}

/** Posts JSON, and turns the browser's word for an unreachable server into an ApiError. */
export async function post(path: string, headers: Record<string, string>, body: object, signal?: AbortSignal): Promise<Response> {
  try {
    return await fetch(path, { method: "POST", headers, body: JSON.stringify(body), signal, credentials: "omit", cache: "no-store" });
  } catch (error) {
    if (isAbort(error) || signal?.aborted) throw error;
    throw new ApiError("The server does not answer", 0, "ECONNREFUSED", "Check that ctxfs serve still runs");
  }
}

/** Reads the error of a response that failed. */
export async function failure(response: Response): Promise<ApiError> {
  const text = await response.text();
  try {
    return errorOf(JSON.parse(text) as Status, response.status);
  } catch {
    return new ApiError(text.trim() || `The server answered with HTTP status ${String(response.status)}`, response.status, "", "");
  }
}

function errorOf(status: Status, http: number): ApiError {
  const info = (status.details ?? []).find((detail) => typeof detail.reason === "string") as { reason?: string; metadata?: Record<string, string> } | undefined;
  const hint = info?.metadata?.hint ?? "";
  // The server's message ends with the hint, which is shown on a line of its own.
  const message = hint !== "" && status.message.endsWith(`; ${hint}`) ? status.message.slice(0, -hint.length - 2) : status.message;
  return new ApiError(message, http, info?.reason ?? "", hint, info?.metadata, status.details);
}

function isFailure(message: { error?: Status }): message is { error: Status } {
  return typeof message.error === "object" && "code" in message.error && Object.keys(message).length === 1;
}

async function* lines(response: Response): AsyncGenerator<string, void, undefined> {
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const parts = (rest + value).split("\n");
      rest = parts.pop() ?? "";
      yield* parts.filter((part) => part !== "");
    }
    if (rest !== "") yield rest;
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

/** Turns one of the API's 64-bit integers, which are strings, into a number; absent is 0. */
export function num(value: string | number | undefined): number {
  return value === undefined ? 0 : Number(value);
}

/** Turns the API's base64 into bytes. */
export function bytesOf(base64: string | undefined): Uint8Array<ArrayBuffer> {
  const text = atob(base64 ?? "");
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

/** Puts the parts of a stream together. */
export function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

/** Turns bytes into the API's base64. */
export function base64Of(bytes: Uint8Array): string {
  let text = "";
  for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return btoa(text);
}
