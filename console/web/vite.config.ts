import { join, resolve } from "node:path";
import { env } from "node:process";
import license from "rollup-plugin-license";
import { defineConfig, type Plugin } from "vite";

// The page's policy is style-src 'self': no <style> element and no style attribute may hold text; CSSOM is free. What each library does instead:
// - style-mod, with which CodeMirror styles itself, uses adoptedStyleSheets, which it does in shadow roots only.
// - xterm.js sets the colours of a cell by CSSOM. src/run/screen.ts makes its style elements constructed style sheets.
const styling = [
  { library: "/style-mod/", from: "!root.head && root.adoptedStyleSheets", to: "root.adoptedStyleSheets" },
  { library: "/@xterm/xterm/lib/", from: '.setAttribute("style",`${t.getAttribute("style")||""}${e};`)', to: ".style.cssText+=`${e};`" },
];

function adoptStyles(): Plugin {
  return {
    name: "adopt-styles",
    apply: "build",
    transform(code, id) {
      const patch = styling.find(({ library }) => id.includes(library) && !id.includes(".css"));
      if (!patch) return null;
      const changed = code.replace(patch.from, () => patch.to);
      if (changed === code) this.error(`${patch.library} is not as expected: the page's policy would refuse its styles`);
      return { code: changed, map: null };
    },
  };
}

// `CTXFS_URL=http://127.0.0.1:7421 npm run dev` sends the calls to that server. Its console link's code works on Vite's address.
const target = env.CTXFS_URL ?? "http://127.0.0.1:7421";

const out = resolve(env.CONSOLE_DIST ?? "../dist");

export default defineConfig({
  base: "/console/",
  plugins: [adoptStyles(), license({ thirdParty: { output: { file: join(out, "licenses.txt") } } })],
  server: { proxy: { "/v1": { target, changeOrigin: true, headers: { origin: target } } } },
  esbuild: { jsx: "automatic", legalComments: "none" },
  build: {
    outDir: out,
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    modulePreload: { polyfill: false },
    rollupOptions: {
      output: {
        entryFileNames: "assets/[name]-[hash].js",
        chunkFileNames: "assets/[name]-[hash].js",
        assetFileNames: "assets/[name]-[hash][extname]",
      },
    },
  },
  test: { environment: "jsdom", include: ["src/**/*.test.ts", "src/**/*.test.tsx"] },
} as Parameters<typeof defineConfig>[0]);
