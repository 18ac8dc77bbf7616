// The windows' preload: contextIsolation and sandbox are on, as Electron has them.
import { exposeCtxfs } from "@ctxfs/client/electron-preload";

exposeCtxfs();
