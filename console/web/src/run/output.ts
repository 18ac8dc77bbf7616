// The output of a process, followed from an offset on.
import { ApiError, bytesOf, num, stream } from "../api";
import { follow } from "../follow";
import type { Output, Process } from "../gen/api";

/** Where a reader continues in the streams of a process. */
export interface Offsets {
  /** In standard output, or in the terminal's output. */
  stdout: number;
  stderr: number;
}

/** What reads an output. */
export interface Reader {
  /** Takes a part. The next part comes when the promise resolves. */
  part(part: Part): Promise<void>;
  /** Learns that the output comes, that the connection was lost, or that the process has ended. */
  state(state: "live" | "lost", process?: undefined): void;
  exited(process: Process): void;
}

/** A part of an output stream. */
export interface Part {
  stream: "stdout" | "stderr";
  bytes: Uint8Array;
  /** How many bytes before these the server does not have any more. */
  dropped: number;
}

/** Follows the output of a process until the process ends, over lost connections and times in which the page is hidden. */
export async function followOutput(processId: string, from: Offsets, reader: Reader, signal: AbortSignal): Promise<void> {
  const at = { ...from };
  await follow(signal, () => { reader.state("lost"); }, async (current, answered) => {
    reader.state("live");
    const request = { processId, stdoutOffset: String(at.stdout), stderrOffset: String(at.stderr), follow: true };
    for await (const { output, exited } of stream("ExecService/FollowOutput", request, { signal: current })) {
      answered();
      if (output) await reader.part(advance(at, output));
      if (exited) {
        reader.exited(exited);
        return;
      }
    }
    throw new ApiError("the output ended before the process", 0, "", ""); // the server stops: retry
  });
}

/** Moves the offsets past a part. */
function advance(at: Offsets, output: Output): Part {
  const name = output.stream === "OUTPUT_STREAM_STDERR" ? "stderr" : "stdout";
  const bytes = bytesOf(output.data);
  at[name] = num(output.offset) + bytes.length;
  return { stream: name, bytes, dropped: num(output.dropped) };
}
