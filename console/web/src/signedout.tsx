// The page before anybody signed in, and after the session ended. It names the command that opens the console.
import { ApiError } from "./api";
import type { SignedOut } from "./session";
import { useTitle } from "./ui";

export function SignedOutPage({ reason }: { reason: SignedOut }) {
  useTitle("Sign in");
  return (
    <main className="signed-out">
      <div className="stack signed-out-box">
        <h1>{titleOf(reason)}</h1>
        {reason instanceof ApiError && <div className="note bad" role="alert"><p>{reason.message}</p></div>}
        <p>Run this command where <code>ctxfs serve</code> runs. It opens this page and signs you in.</p>
        <pre className="command"><code>ctxfs console</code></pre>
        <p className="dim">Its link works once, for two minutes. The session lives in this tab alone.</p>
      </div>
    </main>
  );
}

function titleOf(reason: SignedOut): string {
  switch (reason) {
    case "none":
      return "Sign in to ctxfs";
    case "left":
      return "You are signed out";
    case "ended":
      return "Your session has ended";
    default:
      return "The link does not sign you in";
  }
}
