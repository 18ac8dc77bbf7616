(() => {
  const url = new URL("events", document.currentScript.src);
  // What was changed after the browser requested this page is not in it.
  const requested = performance.getEntriesByType("navigation")[0]?.requestStart ?? 0;
  url.searchParams.set("age", Math.round(performance.now() - requested));
  const source = new EventSource(url);
  let opened = false;
  source.onopen = () => {
    if (opened) location.reload(); // a stream that was interrupted may have missed something
    opened = true;
  };
  source.addEventListener("reload", () => location.reload());
  const replacements = new Map();
  source.addEventListener("css", () => {
    for (const link of document.querySelectorAll('link[rel~="stylesheet"][href]')) {
      const href = new URL(link.href);
      if (href.host !== url.host || [...replacements.values()].includes(link)) continue;
      href.searchParams.set("ctxfs", Date.now());
      const next = link.cloneNode();
      replacements.get(link)?.remove();
      replacements.set(link, next);
      const end = (old) => () => {
        if (replacements.get(link) !== next) return;
        replacements.delete(link);
        old.remove();
      };
      next.onload = end(link);
      next.onerror = end(next);
      next.href = href;
      link.after(next);
    }
  });
})();
