import type { ContextViewProps } from "../views";
import { Processes } from "./processes";

/** The processes of a context. */
export default function ContextProcesses({ contextId, rest }: ContextViewProps) {
  return <Processes contextId={contextId} route={["contexts", contextId, "processes"]} rest={rest} />;
}
