// A window's preload.
import { exposeCtxfs } from "@ctxfs/client/electron-preload";

exposeCtxfs();
