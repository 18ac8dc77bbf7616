import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app";
import { signInByAddress } from "./session";
import { applyTheme } from "./theme";
import "./theme.css";
import { views } from "./views";

applyTheme();
// A code that is pasted into the address of an open page signs in as well.
addEventListener("hashchange", () => void signInByAddress());
// A link with a code leads to the contexts: their view loads while the server checks the code.
if (location.hash.startsWith("#code=")) void views.find(({ name }) => name === "contexts")?.load();
const root = document.getElementById("root");
if (!root) throw new Error("index.html has no #root");
void signInByAddress().then(() => {
  createRoot(root).render(
    <StrictMode>
      <App />
    </StrictMode>,
  );
});
