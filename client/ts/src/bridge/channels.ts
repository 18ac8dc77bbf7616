/** The preload asks the main process, synchronously, whose panel its window is. */
export const infoChannel = "ctxfs:info";
/** The preload sends the main process a port. */
export const portChannel = "ctxfs:port";
/** The page asks its preload for a port, by a message to its own window. */
export const wantMessage = "ctxfs:want";
/** The preload's answer, which carries the port. */
export const portMessage = "ctxfs:port";
/** The global variable of a page that says whose panel it is. */
export const globalName = "ctxfs";

/** What a window's preload gives its page. */
export interface ExposedPanel {
  readonly contextId: string;
  readonly partition: string;
}
