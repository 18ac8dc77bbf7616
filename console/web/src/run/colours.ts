/** Gives a colour of the theme as canvases and xterm.js take it: they know neither custom properties nor light-dark(). */
export function colourOf(property: string): string {
  const probe = document.createElement("span");
  probe.hidden = true;
  probe.style.color = `var(${property})`;
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}
