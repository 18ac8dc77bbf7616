import { StateField, type EditorState, type Range as CmRange } from "@codemirror/state";
import { Decoration, EditorView, WidgetType, type DecorationSet } from "@codemirror/view";
import { count } from "../ui/format";
import { setShown, shownField, type Act, type Context, type PartState } from "./diffmodel";
import { partLines } from "./rows";
import { stateWords } from "./words";

// Headers of parts, and buttons in the place of unchanged lines, stand above a row on both sides and have a fixed height: see review.css.
export function widgets(context: Context) {
  const build = (state: EditorState): DecorationSet => {
    const { layout: l, parts, current } = state.field(shownField);
    const ranges: CmRange<Decoration>[] = [];
    const place = (row: number, order: number, widget: WidgetType) => {
      const beyond = row >= state.doc.lines;
      const at = beyond ? state.doc.length : state.doc.line(row + 1).from;
      ranges.push(Decoration.widget({ widget, block: true, side: beyond && row > 0 ? 1 : order }).range(at));
    };
    for (const gap of l.gaps) place(gap.row, -2, new GapWidget(gap.id, gap.lines, context));
    for (const [i, row] of l.starts.entries()) place(row, -1, new HeaderWidget(i, parts[i], i === current, context));
    return Decoration.set(ranges, true);
  };
  return StateField.define<DecorationSet>({
    create: build,
    update: (value, tr) => (tr.docChanged || tr.effects.some((e) => e.is(setShown)) ? build(tr.state) : value),
    provide: (field) => EditorView.decorations.from(field),
  });
}

class GapWidget extends WidgetType {
  constructor(private readonly id: number, private readonly lines: number, private readonly context: Context) {
    super();
  }

  override eq(other: GapWidget): boolean {
    return other.id === this.id && other.lines === this.lines;
  }

  override get estimatedHeight(): number {
    return 28;
  }

  toDOM(): HTMLElement {
    const outer = element("div", "rv-gap");
    const button = element("button", "", `Show ${count(this.lines, "unchanged line")}`);
    button.type = "button";
    button.addEventListener("click", () => this.context.onGap(this.id));
    if (this.context.side === "before") {
      button.tabIndex = -1;
      outer.setAttribute("aria-hidden", "true");
    }
    outer.append(button);
    return outer;
  }

  override ignoreEvent(): boolean {
    return true;
  }
}

class HeaderWidget extends WidgetType {
  constructor(
    private readonly part: number,
    private readonly state: PartState | undefined,
    private readonly current: boolean,
    private readonly context: Context,
  ) {
    super();
  }

  override eq(other: HeaderWidget): boolean {
    return other.part === this.part && other.current === this.current && other.state?.state === this.state?.state && other.state?.comment === this.state?.comment;
  }

  override get estimatedHeight(): number {
    return 34;
  }

  toDOM(): HTMLElement {
    const { side, model, options } = this.context;
    const dom = element("div", "");
    dom.dataset.part = String(this.part);
    const part = model.diff.parts[this.part];
    if (part === undefined) return dom;
    const name = part.id === "" ? "Whole file" : `Hunk ${this.part + 1} of ${model.diff.parts.length}`;
    dom.dataset.where = `${name} · ${partLines(part)}`;
    if (side !== "after") dom.append(element("span", "rv-where", dom.dataset.where));
    if (side !== "before" && options.decidable) dom.append(element("span", "rv-state"));
    if (side !== "after" && options.decidable) dom.append(element("span", "rv-remark"));
    if (side !== "before" && options.decidable) {
      dom.append(element("span", "rv-space"));
      dom.append(this.button("approve", "Approve", name), this.button("reject", "Reject", name), this.button("remark", "Remark", name));
    }
    // In the split form the left half has the words, and the right one the buttons. Screen readers read both at the buttons.
    if (side === "before") dom.setAttribute("aria-hidden", "true");
    else dom.setAttribute("role", "group");
    this.show(dom);
    return dom;
  }

  // The buttons stay, so that one that was pressed, or that opened a dialog, keeps the focus.
  override updateDOM(dom: HTMLElement): boolean {
    if (dom.dataset.part !== String(this.part)) return false;
    this.show(dom);
    return true;
  }

  override ignoreEvent(): boolean {
    return true;
  }

  private show(dom: HTMLElement): void {
    const { state: verdict, comment } = this.state ?? { state: "pending", comment: "" };
    dom.className = `rv-hunk rv-is-${verdict}${this.current ? " rv-current-hunk" : ""}`;
    if (this.context.side !== "before") dom.setAttribute("aria-label", `${dom.dataset.where ?? ""}${comment && `, remark: ${comment}`}`);
    const [state, remark] = [dom.querySelector<HTMLElement>(".rv-state"), dom.querySelector<HTMLElement>(".rv-remark")];
    if (state) state.textContent = `${stateWords[verdict].sign} ${stateWords[verdict].word}`;
    if (remark) {
      remark.textContent = `“${comment}”`;
      remark.title = comment;
      remark.hidden = comment === "";
    }
    dom.querySelector("[data-act=approve]")?.setAttribute("aria-pressed", String(verdict === "approved"));
    dom.querySelector("[data-act=reject]")?.setAttribute("aria-pressed", String(verdict === "rejected"));
  }

  private button(act: Act, label: string, name: string): HTMLElement {
    const button = element("button", "button small", label);
    button.type = "button";
    button.dataset.act = act;
    button.setAttribute("aria-label", `${label}: ${name.toLowerCase()}`);
    button.addEventListener("click", () => this.context.options.onAct(this.part, button.getAttribute("aria-pressed") === "true" ? "reset" : act));
    return button;
  }
}

function element<K extends keyof HTMLElementTagNameMap>(tag: K, className: string, text = ""): HTMLElementTagNameMap[K] {
  const out = document.createElement(tag);
  if (className) out.className = className;
  out.textContent = text;
  return out;
}
