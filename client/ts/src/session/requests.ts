import { create, toBinary, type DescMessage } from "@bufbuild/protobuf";
import { services, type OpName, type RequestInit } from "./operations.js";
import { Writer } from "./wire.js";

/** An encoded request message: content that comes last is not copied before the message is made. */
export interface Body {
  readonly head: Uint8Array;
  /** The value of the last field; empty when there is none. */
  readonly content: Uint8Array;
}

interface Shape { readonly method: Uint8Array; readonly message: DescMessage }

/** The RPC's full name and request message of each operation. */
const shapes = new Map<string, Shape>();
for (const { typeName, methods } of services) {
  for (const { localName, name, input } of methods) shapes.set(localName, { method: new TextEncoder().encode(`/${typeName}/${name}`), message: input });
}

const none = new Uint8Array(0);
const writer = new Writer();
const dataField = 100;

function shapeOf(op: OpName): Shape {
  const shape = shapes.get(op);
  if (!shape) throw new TypeError(`no operation is called ${op}`);
  return shape;
}

/** The full name of the RPC of operation op, encoded. */
export function methodOf(op: OpName): Uint8Array {
  return shapeOf(op).method;
}

interface Paths { path?: string; rawPath?: Uint8Array }
type Encoder = (request: never, contextId: string) => Body;

const pathOnly: Encoder = ({ path = "", rawPath = none }: Paths, contextId) => ({
  head: writer.reset().string(1, contextId).string(2, path).bytes(3, rawPath).finish(), content: none,
});

const fdOnly: Encoder = ({ fd = 0 }: RequestInit<"fstat">, contextId) => ({
  head: writer.reset().string(1, contextId).uint(2, fd).finish(), content: none,
});

/** The requests that travel most. */
const encoders: Partial<Record<OpName, Encoder>> = {
  stat: pathOnly, lstat: pathOnly, unlink: pathOnly, readlink: pathOnly, realpath: pathOnly, rmdir: pathOnly, exists: pathOnly,
  fstat: fdOnly, close: (request: RequestInit<"close">, contextId) => (request.commit ?? request.flush ? general("close", request, contextId) : fdOnly(request as never, contextId)),
  read: ({ fd = 0, position, length, encoding }: RequestInit<"read">, contextId) => ({
    head: writer.reset().string(1, contextId).uint(2, fd).int64(3, position).int64(4, length).string(5, encoding ?? "").finish(), content: none,
  }),
  readFile: (request: RequestInit<"readFile">, contextId) => {
    const { path = "", rawPath = none, encoding, flagForm, fd, lines } = request;
    if (encoding || lines || fd !== undefined || flagForm?.case !== "flag") return general("readFile", request, contextId);
    return { head: writer.reset().string(1, contextId).string(2, path).bytes(3, rawPath).string(5, flagForm.value).finish(), content: none };
  },
  writeFile: (request: RequestInit<"writeFile">, contextId) => {
    const { path = "", rawPath = none, encoding, modeForm, flagForm, flush, atomic, fd, content, ifMatch, ifNoneMatch } = request;
    const plain = !encoding && !flush && !atomic && !ifMatch && !ifNoneMatch && fd === undefined;
    if (!plain || modeForm?.case !== "mode" || flagForm?.case !== "flag" || content?.case !== "data") return general("writeFile", request, contextId);
    const { value } = content;
    writer.reset().string(1, contextId).string(2, path).bytes(3, rawPath).int64(5, BigInt(modeForm.value)).string(7, flagForm.value);
    return { head: writer.head(dataField, value.length).finish(), content: value };
  },
  write: (request: RequestInit<"write">, contextId) => {
    const { fd = 0, position, content } = request;
    if (content?.case !== "data") return general("write", request, contextId);
    const { value } = content;
    return { head: writer.reset().string(1, contextId).uint(2, fd).int64(3, position).head(dataField, value.length).finish(), content: value };
  },
};

/** Encodes a request message of operation op, without the envelope. */
export function encodeRequest(op: OpName, request: object, contextId: string): Body {
  const encoder = encoders[op];
  return encoder ? encoder(request as never, contextId) : general(op, request, contextId);
}

function general(op: OpName, request: object, contextId: string): Body {
  const shape = shapeOf(op);
  const message = create(shape.message, request as never) as { contextId?: string };
  message.contextId ||= contextId;
  return { head: toBinary(shape.message, message as never), content: none };
}
