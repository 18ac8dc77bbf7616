// A page of an origin that the server does not let in.
import { createFs } from "@ctxfs/client";

const { url, token } = settings as { url: string; token: string };
createFs({ url, token }).stat("/").then(() => { report("let in"); }, (e: unknown) => { report((e as Error).message); });
