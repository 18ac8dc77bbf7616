// Starts commands in a context.
import { useState, type SubmitEvent } from "react";
import { call } from "../api";
import type { Command, Process } from "../gen/api";
import { Button, Dialog, ErrorNote, useAsync } from "../ui";
import { shell } from "./process";

/** Starts a shell in a terminal. */
export function startShell(contextId: string): Promise<Process | undefined> {
  return start({ contextId, argv: shell, pty: {} });
}

/** Starts a command. It continues when this page is closed. */
async function start(command: Command): Promise<Process | undefined> {
  const { process } = await call("ExecService/Start", { command: { ...command, onDisconnect: "ON_DISCONNECT_KEEP" } });
  return process;
}

interface DialogProps {
  contextId: string;
  onStarted: (process: Process | undefined) => void;
  onClose: () => void;
}

/** Asks for a command, and starts it. */
export function StartDialog({ contextId, onStarted, onClose }: DialogProps) {
  const [line, setLine] = useState("");
  const [terminal, setTerminal] = useState(false);
  const [checkpoint, setCheckpoint] = useState(false);
  const [profile, setProfile] = useState("");
  const [error, setError] = useState<unknown>();
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    setError(undefined);
    start({ contextId, argv: ["sh", "-c", line], profile, checkpoint, ...(terminal ? { pty: {} } : {}) }).then(onStarted, setError);
  };
  return (
    <Dialog title="Run a command" onClose={onClose} foot={<>
      <Button onClick={onClose}>Cancel</Button>
      <Button kind="primary" type="submit" form="start" disabled={line.trim() === ""}>Run</Button>
    </>}>
      <form id="start" className="stack" onSubmit={submit}>
        <div className="field">
          <label htmlFor="start-line">Command</label>
          <input id="start-line" type="text" className="mono" data-autofocus autoComplete="off" spellCheck={false} value={line} onChange={(event) => { setLine(event.target.value); }} />
          <span className="help">A shell reads it, in the root of the context.</span>
        </div>
        <ProfileField value={profile} onChange={setProfile} />
        <label className="check"><input type="checkbox" checked={terminal} onChange={(event) => { setTerminal(event.target.checked); }} />In a terminal</label>
        <label className="check"><input type="checkbox" checked={checkpoint} onChange={(event) => { setCheckpoint(event.target.checked); }} />Record what it changes, to undo it in the journal</label>
      </form>
      {error !== undefined && <ErrorNote error={error} />}
    </Dialog>
  );
}

function ProfileField({ value, onChange }: { value: string; onChange: (profile: string) => void }) {
  const { data } = useAsync(async (signal) => (await call("ExecService/ListProfiles", {}, { signal })).profiles ?? [], []);
  const profiles = data ?? [{ name: "offline", description: "no network" }];
  return (
    <div className="field">
      <label htmlFor="start-profile">Profile</label>
      <select id="start-profile" value={value || "offline"} onChange={(event) => { onChange(event.target.value); }}>
        {profiles.map(({ name = "", description }) => <option key={name} value={name}>{description ? `${name}: ${description}` : name}</option>)}
      </select>
    </div>
  );
}
