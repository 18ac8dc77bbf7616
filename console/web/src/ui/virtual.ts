import { useCallback, useEffect, useLayoutEffect, useRef, useState, type RefObject } from "react";

export interface Virtual {
  /** Belongs on the element that scrolls. */
  scroller: RefObject<HTMLDivElement | null>;
  /** The rows to render, the last one excluded. */
  from: number;
  to: number;
  /** Scrolls as little as is needed to show a row. */
  reveal: (index: number) => void;
}

/** Renders only the rows in sight of a list whose rows all have one height. */
export function useVirtual(count: number, rowHeight: number): Virtual {
  const scroller = useRef<HTMLDivElement>(null);
  const [sight, setSight] = useState({ top: 0, height: 600 });
  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) return;
    const look = () => setSight((was) => (was.top === element.scrollTop && was.height === element.clientHeight ? was : { top: element.scrollTop, height: element.clientHeight }));
    const observer = new ResizeObserver(look);
    observer.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    look();
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, []);
  const reveal = useCallback((index: number) => {
    const element = scroller.current;
    if (!element || index < 0) return;
    const top = index * rowHeight;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + rowHeight > element.scrollTop + element.clientHeight) element.scrollTop = top + rowHeight - element.clientHeight;
  }, [rowHeight]);
  const from = Math.max(0, Math.floor(sight.top / rowHeight) - 10);
  const to = Math.min(count, Math.ceil((sight.top + sight.height) / rowHeight) + 10);
  return { scroller, from, to, reveal };
}

/** Says when an element comes into sight, once for each key. */
export function useInSight<E extends Element>(onSight: (element: E) => void): (element: E | null) => void {
  const handler = useRef(onSight);
  useEffect(() => {
    handler.current = onSight;
  });
  const [observer] = useState(() => new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) handler.current(entry.target as E);
    }
  }, { rootMargin: "200px" }));
  useEffect(() => () => observer.disconnect(), [observer]);
  return useCallback((element: E | null) => {
    if (element) observer.observe(element);
  }, [observer]);
}
