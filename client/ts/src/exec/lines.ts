/** The lines of a stream of UTF-8, without their ends. */
export async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string, void, undefined> {
  const decoder = new TextDecoder();
  const reader = stream.getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    rest += done ? decoder.decode() : decoder.decode(value, { stream: true });
    const lines = rest.split(/\r\n|\n|\r(?=[^])/);
    rest = lines.pop() ?? "";
    yield* lines;
    if (done) break;
  }
  if (rest !== "") yield rest.replace(/\r$/, "");
}
