(() => {
  const url = new URL("events", document.currentScript.src);
  let source;
  let last; // the time of the last event, by the server's clock
  const listen = () => {
    if (document.hidden) return;
    if (last) {
      url.search = `?since=${last}`;
    } else {
      // What was changed after the browser requested this page is not in it.
      const requested = performance.getEntriesByType("navigation")[0]?.requestStart ?? 0;
      url.search = `?age=${Math.round(performance.now() - requested)}`;
    }
    source = new EventSource(url);
    source.onmessage = note;
    source.addEventListener("css", restyle);
    source.addEventListener("reload", () => location.reload());
  };
  // Browsers open six connections to a host over HTTP/1.1: a page that nobody sees keeps none.
  document.addEventListener("visibilitychange", () => {
    source?.close();
    listen();
  });
  const note = (event) => {
    last = event.lastEventId;
  };
  const replacements = new Map();
  const restyle = (event) => {
    note(event);
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
  };
  listen();
})();
