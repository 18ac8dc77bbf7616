import { compareByWire } from "./wire.js";

compareByWire({ ws: 1, tcp: 17, grpc: 13 });
