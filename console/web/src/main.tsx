import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app";
import { signInByAddress } from "./session";
import { applyTheme } from "./theme";
import "./theme.css";

applyTheme();
// A code that is pasted into the address of an open page signs in as well.
addEventListener("hashchange", () => void signInByAddress());
const root = document.getElementById("root");
if (!root) throw new Error("index.html has no #root");
void signInByAddress().then(() => {
  createRoot(root).render(
    <StrictMode>
      <App />
    </StrictMode>,
  );
});
