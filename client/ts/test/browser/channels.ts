// Each function runs in a page as its text: it uses nothing from outside.

/** Ways of a page to send something to a stranger without leaving. Each gets a URL of the stranger's, and ports of its own. */
export type Channel = (to: string, ports: { udp: number; tcp: number }) => unknown;
export const channels: Readonly<Record<string, Channel>> = {
  fetch: (to) => fetch(to, { mode: "no-cors" }),
  beacon: (to) => navigator.sendBeacon(to),
  "later fetch": (to) => (globalThis as unknown as { fetchLater(url: string, options: object): unknown }).fetchLater(to, { activateAfter: 0, mode: "no-cors" }),
  image: (to) => { new Image().src = to; },
  "image of an SVG": (to) => { document.body.insertAdjacentHTML("beforeend", `<svg><image href="${to}"></svg>`); },
  script: (to) => document.body.appendChild(Object.assign(document.createElement("script"), { src: to })),
  "style sheet": (to) => document.body.appendChild(Object.assign(document.createElement("link"), { rel: "stylesheet", href: to })),
  "import of a style": (to) => document.body.appendChild(Object.assign(document.createElement("style"), { textContent: `@import "${to}"` })),
  font: (to) => new FontFace("f", `url(${to})`).load(),
  background: (to) => { document.body.insertAdjacentHTML("beforeend", `<p style="background: url(${to})">x</p>`); },
  frame: (to) => document.body.appendChild(Object.assign(document.createElement("iframe"), { src: to })),
  object: (to) => document.body.appendChild(Object.assign(document.createElement("object"), { data: to })),
  embed: (to) => document.body.appendChild(Object.assign(document.createElement("embed"), { src: to })),
  video: (to) => document.body.appendChild(Object.assign(document.createElement("video"), { src: to })),
  form: (to) => {
    document.body.insertAdjacentHTML("beforeend", `<iframe name="in"></iframe><form target="in" action="${to}"></form>`);
    document.forms[0]?.submit();
  },
  "form in a window": (to) => {
    document.body.insertAdjacentHTML("beforeend", `<form target="_blank" action="${to}"></form>`);
    document.forms[1]?.submit();
  },
  "link to a window": (to) => { Object.assign(document.createElement("a"), { href: to, target: "_blank" }).click(); },
  "window elsewhere": (to) => { open(to); },
  WebSocket: (to) => new WebSocket(to.replace("http", "ws")),
  EventSource: (to) => new EventSource(to),
  prefetch: (to) => document.head.appendChild(Object.assign(document.createElement("link"), { rel: "prefetch", href: to })),
  preload: (to) => document.head.appendChild(Object.assign(document.createElement("link"), { rel: "preload", as: "fetch", href: to })),
  "preload of a module": (to) => document.head.appendChild(Object.assign(document.createElement("link"), { rel: "modulepreload", href: to })),
  dictionary: (to) => document.head.appendChild(Object.assign(document.createElement("link"), { rel: "compression-dictionary", href: to })),
  ping: (to) => { Object.assign(document.createElement("a"), { href: "#x", ping: to }).click(); },
  "worker of a blob": (to) => new Worker(URL.createObjectURL(new Blob([`fetch("${to}", { mode: "no-cors" })`]))),
  "shared worker of a blob": (to) => new SharedWorker(URL.createObjectURL(new Blob([`fetch("${to}", { mode: "no-cors" })`]))),
  "frame of data": (to) => document.body.appendChild(Object.assign(document.createElement("iframe"), { src: `data:text/html,<img src="${to}">` })),
  "frame of a blob": (to) => document.body.appendChild(Object.assign(document.createElement("iframe"), { src: URL.createObjectURL(new Blob([`<img src="${to}">`], { type: "text/html" })) })),
  "frame of a srcdoc": (to) => document.body.appendChild(Object.assign(document.createElement("iframe"), { srcdoc: `<img src="${to}">` })),
  window: (to) => { open("about:blank")?.document.body.insertAdjacentHTML("beforeend", `<img src="${to}">`); },
  preconnect: (_, { tcp }) => document.head.appendChild(Object.assign(document.createElement("link"), { rel: "preconnect", href: `http://stranger.localhost:${String(tcp)}` })),
  RTCPeerConnection: async (_, { udp }) => {
    const peer = Object.assign(globalThis, { peer: new RTCPeerConnection({ iceServers: [{ urls: `stun:127.0.0.1:${String(udp)}` }] }) }).peer;
    peer.createDataChannel("x");
    await peer.setLocalDescription(await peer.createOffer());
  },
};

/** Browsers do this for the page in front alone. */
export const speculation: Channel = (to) => document.head.appendChild(Object.assign(document.createElement("script"), { type: "speculationrules", textContent: JSON.stringify({ prefetch: [{ urls: [to], eagerness: "immediate" }] }) }));

/** The way of a page that leaves. */
export const navigation: Channel = (to) => { location.href = to; };
