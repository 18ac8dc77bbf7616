import type { Page } from "playwright-core";
import type { Removal, Stage } from "./lair.js";

/** One attack. */
export interface Row {
  name: string;
  /** The protection that the second try does without. */
  without: Removal;
  /** Returns what the attacker gained; "" for nothing. */
  attack(stage: Stage): Promise<string>;
}

/** Takes headers off all answers. */
export const drop = (...names: string[]): Removal => ({ response: (headers) => { for (const name of names) Reflect.deleteProperty(headers, name); } });
export const policy = drop("content-security-policy");

/** Shows a URL in a frame, and returns its title if it is the one of the page. */
export async function framedBy(page: Page, url: string, title: string): Promise<string> {
  const element = await page.evaluateHandle((url) => {
    const frame = document.createElement("iframe");
    frame.src = url;
    document.body.append(frame);
    return new Promise<HTMLIFrameElement>((resolve) => { frame.onload = () => { resolve(frame); }; });
  }, url);
  const shown = await (await element.contentFrame())?.title();
  return shown === title ? shown : "";
}
