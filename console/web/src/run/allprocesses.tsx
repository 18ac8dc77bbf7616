import type { PageViewProps } from "../views";
import { Processes } from "./processes";

/** The processes of all contexts. */
export default function AllProcesses({ rest }: PageViewProps) {
  return <Processes route={["processes"]} rest={rest} />;
}
