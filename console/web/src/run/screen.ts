// xterm.js under a Content-Security-Policy that permits no inline style.
import { FitAddon } from "@xterm/addon-fit";
import { Terminal, type ITerminalOptions, type ITheme } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { colourOf } from "./colours";

/** A terminal on the page. */
export interface Screen {
  terminal: Terminal;
  /** Makes the terminal as large as its element. */
  fit(): void;
  /** Writes, and resolves when the terminal has read it. */
  write(data: string | Uint8Array): Promise<void>;
  /** Takes the page's colours again. */
  recolour(): void;
  dispose(): void;
}

/** Opens a terminal in an element. Its links are text: a program's output opens no page. */
export function openScreen(parent: HTMLElement, options: ITerminalOptions): Screen {
  const sheets = new StyleSheets();
  const terminal = new Terminal({
    fontFamily: getComputedStyle(document.documentElement).getPropertyValue("--mono").trim(), fontSize: 13, scrollback: 10_000, theme: theme(), minimumContrastRatio: 4.5,
    linkHandler: { activate: () => undefined }, ...options,
  });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  sheets.during(() => { terminal.open(parent); });
  return {
    terminal,
    fit: () => { fit.fit(); },
    write: (data) => new Promise((resolve) => { terminal.write(data, resolve); }),
    recolour: () => { terminal.options.theme = theme(); },
    dispose: () => {
      terminal.dispose();
      sheets.dispose();
    },
  };
}

const createElement = Reflect.get(Document.prototype, "createElement") as (name: string, options?: ElementCreationOptions) => Element;

/**
 * The style sheets of one terminal. xterm.js writes them into style elements, which the policy refuses, even empty ones. It creates these
 * elements while it opens, and gets elements whose text becomes a constructed style sheet. vite.config.ts sees to the styles of cells.
 */
class StyleSheets {
  private sheets: CSSStyleSheet[] = [];

  /** Runs what creates style elements. */
  during(run: () => void): void {
    const create = (name: string, options?: ElementCreationOptions): Element => (name === "style" ? this.styleElement() : createElement.call(document, name, options));
    Object.defineProperty(document, "createElement", { value: create, configurable: true });
    try {
      run();
    } finally {
      Reflect.deleteProperty(document, "createElement"); // the prototype's own is back
    }
  }

  /** Takes all style sheets from the page. */
  dispose(): void {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((sheet) => !this.sheets.includes(sheet));
  }

  private styleElement(): Element {
    const sheet = new CSSStyleSheet();
    this.sheets.push(sheet);
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
    const element = createElement.call(document, "span") as HTMLElement;
    element.hidden = true;
    Object.defineProperty(element, "textContent", { set: (text: string) => { sheet.replaceSync(text); } });
    return element;
  }
}

/** The colours of the page's theme. */
function theme(): ITheme {
  const text = colourOf("--text");
  return { background: colourOf("--bg-sunken"), foreground: text, cursor: text, cursorAccent: colourOf("--bg-sunken"), selectionBackground: colourOf("--bg-selected") };
}
