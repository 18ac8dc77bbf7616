import { fsOver, type CtxFs } from "../create.js";
import { requireKnown } from "../errors/options.js";
import { Client } from "../session/client.js";
import { portDialer, type PortSource } from "./panelport.js";

/** Makes the fs of a panel whose host serves it through a port. It begins at the first call. */
export function createPortFs(port: PortSource, options: { pingEvery?: number | undefined } = {}): CtxFs {
  requireKnown(options, ["pingEvery"]);
  return fsOver(new Client({ dialer: portDialer(port) }), options);
}
