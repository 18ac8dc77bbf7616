import type { Dialer } from "../session/link.js";
import type { AddressOptions } from "../links/target.js";

/** How to reach a server, and as whom. */
export interface DialOptions extends AddressOptions {
  /** For hosts: the panel to act for. */
  panel?: string | undefined;
  /** Node only: how sessions travel; "ws" unless told. */
  transport?: "ws" | "grpc" | undefined;
}

/** Makes what connects to a server. */
export type MakeDialer = (options: DialOptions) => Dialer;
