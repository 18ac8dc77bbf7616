import { create, fromBinary, toBinary, type DescMethod, type MessageInitShape, type MessageShape } from "@bufbuild/protobuf";
import type { Client, ServiceError } from "@grpc/grpc-js";
import { metadataOf } from "../links/grpc.js";
import { callError } from "./status.js";

/** A method of one request, and one answer or several. */
type Method = DescMethod;

/** Calls a unary method. */
export async function unary<M extends Method>(client: Client, token: string, method: M, request: MessageInitShape<M["input"]>): Promise<MessageShape<M["output"]>> {
  return withCallersStack(new Promise((resolve, reject) => {
    client.makeUnaryRequest(pathOf(method), encoder(method), decoder(method), message(method, request), metadataOf(token), (error, answer) => {
      if (error) reject(error);
      else if (answer === undefined) reject(new Error(`the server answered ${method.name} with nothing`));
      else resolve(answer);
    });
  }));
}

/** Calls a method that answers several times, and hands each answer on. */
export async function serverStream<M extends Method>(
  client: Client, token: string, method: M, request: MessageInitShape<M["input"]>, onAnswer: (answer: MessageShape<M["output"]>) => void,
): Promise<void> {
  return withCallersStack(new Promise((resolve, reject) => {
    const stream = client.makeServerStreamRequest(pathOf(method), encoder(method), decoder(method), message(method, request), metadataOf(token));
    stream.on("data", onAnswer);
    stream.on("error", reject);
    stream.on("end", resolve);
  }));
}

/** Turns what grpc-js rejects with into an error of ours, after the caller's functions have resumed: the stack then shows them. */
async function withCallersStack<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    throw "metadata" in (error as Error) ? callError(error as ServiceError) : error;
  }
}

/** create's type does not see that the message is the method's. */
function message<M extends Method>(method: M, request: MessageInitShape<M["input"]>): MessageShape<M["input"]> {
  return create(method.input, request) as MessageShape<M["input"]>;
}

function pathOf(method: Method): string {
  return `/${method.parent.typeName}/${method.name}`;
}

function encoder<M extends Method>(method: M) {
  return (value: MessageShape<M["input"]>): Buffer => Buffer.from(toBinary(method.input, value));
}

function decoder<M extends Method>(method: M) {
  return (bytes: Buffer): MessageShape<M["output"]> => fromBinary(method.output, bytes) as MessageShape<M["output"]>;
}
