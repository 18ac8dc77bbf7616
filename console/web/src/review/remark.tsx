// A decision with a remark, which the panel reads.
import { useState } from "react";
import { Button, Dialog, Note } from "../ui";
import type { Verdict } from "./decisions";

// What was typed stays until it is sent, also when the dialog is closed or the change becomes another one.
const drafts = new Map<string, string>();

interface Props {
  draftKey: string;
  what: string;
  verdict: Verdict;
  onSend: (verdict: Verdict) => Promise<boolean>;
  onClose: () => void;
}

export function RemarkDialog({ draftKey, what, verdict, onSend, onClose }: Props) {
  const [text, setText] = useState(drafts.get(draftKey) ?? verdict.comment);
  const [approve, setApprove] = useState(verdict.decision === "DECISION_APPROVED");
  const [state, setState] = useState<"idle" | "sending" | "refused">("idle");
  const type = (to: string) => {
    setText(to);
    drafts.set(draftKey, to);
  };
  const send = async () => {
    setState("sending");
    if (await onSend({ decision: approve ? "DECISION_APPROVED" : "DECISION_REJECTED", comment: text.trim() })) {
      drafts.delete(draftKey);
      onClose();
    } else setState("refused");
  };
  const tooLong = new TextEncoder().encode(text).length > 64 << 10;
  return (
    <Dialog title="Decide with a remark" onClose={onClose} foot={<>
      <Button onClick={onClose}>Cancel</Button>
      <Button kind="primary" type="submit" form="remark" disabled={state === "sending" || text.trim() === "" || tooLong}>{approve ? "Approve" : "Reject"} with the remark</Button>
    </>}>
      <form id="remark" className="stack" onSubmit={(event) => { event.preventDefault(); void send(); }}>
        <p>On {what}. The panel reads it with <code>ctxfs changes</code> or its client.</p>
        <div className="field">
          <label htmlFor="remark-text">Remark</label>
          <textarea id="remark-text" rows={5} data-autofocus value={text} onChange={(event) => type(event.target.value)}
            onKeyDown={(event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && text.trim() !== "") void send(); }} />
          <span className="help">{tooLong ? "A remark has at most 64 KiB." : "Ctrl+Enter sends it."}</span>
        </div>
        <fieldset className="rv-choice">
          <legend>Decision</legend>
          <label className="check"><input type="radio" name="decision" checked={!approve} onChange={() => setApprove(false)} />Reject: the panel should change it</label>
          <label className="check"><input type="radio" name="decision" checked={approve} onChange={() => setApprove(true)} />Approve</label>
        </fieldset>
        {state === "refused" && <Note tone="warn">The server did not take it; most likely the context changed meanwhile. Your text is kept: close this, look at the change again, and send it then.</Note>}
      </form>
    </Dialog>
  );
}
