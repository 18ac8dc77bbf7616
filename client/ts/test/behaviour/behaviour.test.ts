import { compareByWire } from "./wire.js";

// Prime numbers: the rows of a table repeat the same values for each function.
compareByWire({ ws: 11, tcp: 101, grpc: 101 });
