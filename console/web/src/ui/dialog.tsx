// Modal dialogs, on the browser's own element: it keeps the focus inside, closes at Escape, and gives the focus back.
import { useId, useLayoutEffect, useRef, useState, type ReactNode } from "react";
import { Button, ErrorNote } from "./basics";

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ReactNode;
  /** Buttons at the bottom. */
  foot?: ReactNode;
  wide?: boolean;
  /** Keeps the dialog open: what it does now has an outcome to show. */
  busy?: boolean;
}

export function Dialog({ title, onClose, children, foot, wide, busy }: DialogProps) {
  const id = useId();
  const element = useRef<HTMLDialogElement>(null);
  // A layout effect ends while the element is still in the page: only then does closing give the focus back.
  useLayoutEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    // The browser would focus the button that closes the dialog. React's autoFocus comes too early: a closed dialog takes no focus.
    dialog?.querySelector<HTMLElement>("[data-autofocus]")?.focus();
    return () => {
      dialog?.close();
      // What had the focus may be gone: the dialog was about it. The next Tab then starts in the view.
      if (!document.activeElement || document.activeElement === document.body) document.querySelector<HTMLElement>("main")?.focus({ preventScroll: true });
    };
  }, []);
  // A browser closes a dialog at the second Escape whatever the page does with it. One that is still in the page has more to show.
  const reopen = () => {
    if (element.current && !element.current.open) element.current.showModal();
  };
  return (
    <dialog ref={element} className={wide ? "wide" : undefined} aria-labelledby={id} onCancel={(event) => { event.preventDefault(); if (!busy) onClose(); }} onClose={reopen}>
      <div className="dialog-head">
        <h2 id={id}>{title}</h2>
        <Button kind="quiet" icon small aria-label="Close" disabled={busy} onClick={onClose}>✕</Button>
      </div>
      <div className="dialog-body">{children}</div>
      {foot && <div className="dialog-foot">{foot}</div>}
    </dialog>
  );
}

interface ConfirmProps {
  title: string;
  children: ReactNode;
  /** Says what the button does: "Discard 3 changes". */
  action: string;
  danger?: boolean;
  onConfirm: () => Promise<void>;
  onClose: () => void;
}

/** Asks before something is done. It stays open with the error when that fails. */
export function Confirm({ title, children, action, danger, onConfirm, onClose }: ConfirmProps) {
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const confirm = async () => {
    setBusy(true);
    setError(null);
    try {
      await onConfirm();
      onClose();
    } catch (failed) {
      setError(failed);
      setBusy(false);
    }
  };
  return (
    <Dialog title={title} onClose={onClose} busy={busy} foot={<>
      <Button disabled={busy} onClick={onClose}>Cancel</Button>
      <Button kind={danger ? "danger" : "primary"} disabled={busy} onClick={() => void confirm()}>{action}</Button>
    </>}>
      {children}
      {error !== null && <ErrorNote error={error} />}
    </Dialog>
  );
}
