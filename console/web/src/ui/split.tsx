import { useRef, useState, type KeyboardEvent, type PointerEvent, type ReactNode } from "react";

interface SplitProps {
  /** Names what the bar resizes: "Width of the file list". */
  label: string;
  /** Keeps the width under this name for the tab's life. */
  name: string;
  side: ReactNode;
  children: ReactNode;
  initial?: number;
}

/** Two panes with a bar between them, which pointer and arrow keys move. On a phone they stand one above the other. */
export function Split({ label, name, side, children, initial = 280 }: SplitProps) {
  const key = `ctxfs-console-split-${name}`;
  const [width, setWidth] = useState(() => clamp(Number(sessionStorage.getItem(key)) || initial));
  const start = useRef<{ x: number; width: number } | null>(null);
  const resize = (to: number) => {
    setWidth(clamp(to));
    sessionStorage.setItem(key, String(clamp(to)));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const to = { ArrowLeft: width - 24, ArrowRight: width + 24, Home: least, End: most }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    resize(to);
  };
  const onPointerDown = (event: PointerEvent<HTMLDivElement>) => {
    event.currentTarget.setPointerCapture(event.pointerId);
    start.current = { x: event.clientX, width };
  };
  const onPointerMove = (event: PointerEvent) => {
    if (start.current) resize(start.current.width + event.clientX - start.current.x);
  };
  return (
    <div className="split">
      <div className="split-side" style={{ width }}>{side}</div>
      <div className="split-bar" role="separator" aria-orientation="vertical" aria-label={label} aria-valuenow={width} aria-valuemin={least} aria-valuemax={most} tabIndex={0}
        onKeyDown={onKeyDown} onPointerDown={onPointerDown} onPointerMove={onPointerMove} onPointerUp={() => { start.current = null; }} />
      <div className="split-main">{children}</div>
    </div>
  );
}

const least = 140;
const most = 720;

function clamp(width: number): number {
  return Math.min(most, Math.max(least, Math.round(width)));
}
